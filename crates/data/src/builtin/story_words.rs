//! The words of the stories, in groups that belong together.

/// Him and her: the two words, and what such people do.
pub(super) const PEOPLE: [([&str; 2], [&str; 4]); 8] = [
    (["man", "woman"], ["worked in the office", "drove a car", "read the newspaper", "paid the bill"]),
    (
        ["king", "queen"],
        ["wore the golden crown", "sat on the throne", "ruled the country", "lived in the royal palace"],
    ),
    (
        ["prince", "princess"],
        ["lived in the castle", "danced at the royal ball", "would wear the crown one day", "rode to the palace"],
    ),
    (
        ["father", "mother"],
        ["loved the children", "cooked for the family", "told the children a story", "came home to the family"],
    ),
    (["boy", "girl"], ["went to school", "played with a toy", "did the homework", "ran with the other children"]),
    (
        ["brother", "sister"],
        ["shared the bedroom", "quarrelled at home", "kept the secret", "climbed the tree with the twins"],
    ),
    (
        ["uncle", "aunt"],
        ["visited on holidays", "sent a birthday gift", "came from far away", "told the nephew a joke"],
    ),
    (["son", "daughter"], ["obeyed the parents", "grew up quickly", "was born in spring", "inherited the farm"]),
];

/// Country, capital, the language, and what one eats there.
pub(super) const COUNTRIES: [[&str; 4]; 10] = [
    ["France", "Paris", "French", "cheese"],
    ["Italy", "Rome", "Italian", "pasta"],
    ["Germany", "Berlin", "German", "sausage"],
    ["Spain", "Madrid", "Spanish", "ham"],
    ["England", "London", "English", "pudding"],
    ["Japan", "Tokyo", "Japanese", "rice"],
    ["Russia", "Moscow", "Russian", "cabbage"],
    ["Greece", "Athens", "Greek", "olives"],
    ["Portugal", "Lisbon", "Portuguese", "sardines"],
    ["Norway", "Oslo", "Norwegian", "salmon"],
];

/// Base, third person, past, and where it is done.
pub(super) const ACTIONS: [([&str; 3], [&str; 3]); 10] = [
    (["walk", "walks", "walked"], ["along the river", "through the forest", "over the hills"]),
    (["play", "plays", "played"], ["with the ball", "a game of cards", "chess in the club"]),
    (["cook", "cooks", "cooked"], ["a soup in the kitchen", "dinner on the stove", "eggs in the pan"]),
    (["paint", "paints", "painted"], ["the wall with a brush", "a picture of the sea", "the old fence"]),
    (["dance", "dances", "danced"], ["to the music", "at the wedding", "a slow waltz"]),
    (["visit", "visits", "visited"], ["the museum", "an exhibition", "the old cathedral"]),
    (["plant", "plants", "planted"], ["roses in the garden", "seeds in the soil", "a young tree"]),
    (["wash", "washes", "washed"], ["the dishes with soap", "the dirty clothes", "the windows with a sponge"]),
    (["open", "opens", "opened"], ["the door with a key", "a letter from abroad", "the heavy gate"]),
    (["repair", "repairs", "repaired"], ["the engine with a hammer", "an old bicycle", "the broken clock"]),
];

/// An animal, its cry, its food, its home.
pub(super) const ANIMALS: [[&str; 4]; 8] = [
    ["cat", "meows", "fish", "basket"],
    ["dog", "barks", "bones", "kennel"],
    ["cow", "moos", "grass", "barn"],
    ["horse", "neighs", "hay", "stable"],
    ["duck", "quacks", "bread", "pond"],
    ["pig", "grunts", "potatoes", "sty"],
    ["mouse", "squeaks", "cheese", "hole"],
    ["owl", "hoots", "mice", "hollow"],
];

pub(super) const COLOURS: [&str; 7] = ["red", "blue", "green", "yellow", "white", "black", "brown"];
pub(super) const PAINTED: [&str; 8] = ["house", "door", "boat", "dress", "hat", "car", "flower", "chair"];
pub(super) const FOOD: [&str; 8] = ["bread", "cheese", "soup", "cake", "apples", "eggs", "rice", "fish"];
pub(super) const DRINKS: [&str; 4] = ["water", "milk", "tea", "coffee"];
pub(super) const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
pub(super) const PLACES: [&str; 7] = ["park", "market", "station", "library", "beach", "village", "church"];
pub(super) const MEN: [&str; 5] = ["Paul", "Louis", "Marc", "Thomas", "Antoine"];
pub(super) const WOMEN: [&str; 5] = ["Anna", "Marie", "Emma", "Alice", "Sophie"];
