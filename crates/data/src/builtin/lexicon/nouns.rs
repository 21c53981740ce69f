//! Nouns.

use super::class::*;
use super::{Count, Gender, Location, Noun};
use Gender::{Feminine as F, Masculine as M};

const fn noun(english: [&'static str; 2], gender: Gender, french: [&'static str; 2], class: u64) -> Noun {
    Noun { english, french, gender, count: Count::Countable, location: Location::None, class }
}

const fn mass(english: &'static str, gender: Gender, french: &'static str, class: u64) -> Noun {
    Noun { count: Count::Mass, ..noun([english, english], gender, [french, french], class) }
}

const fn place(location: Location, noun: Noun) -> Noun {
    Noun { location, class: noun.class | PLACE, ..noun }
}

const TOOL: u64 = GOODS | PORTABLE;
const GARMENT: u64 = GOODS | PORTABLE | CLOTHES | COLOURED;

/// Every noun.
pub(in crate::builtin) static NOUNS: &[Noun] = &[
    noun(["man", "men"], M, ["homme", "hommes"], PERSON | NOBODYS),
    noun(["woman", "women"], F, ["femme", "femmes"], PERSON | NOBODYS),
    noun(["boy", "boys"], M, ["garçon", "garçons"], PERSON | TRAINED | NOBODYS),
    noun(["girl", "girls"], F, ["fille", "filles"], PERSON | TRAINED | NOBODYS),
    noun(["child", "children"], M, ["enfant", "enfants"], PERSON | TRAINED),
    noun(["king", "kings"], M, ["roi", "rois"], PERSON | NOBODYS),
    noun(["queen", "queens"], F, ["reine", "reines"], PERSON | NOBODYS),
    noun(["doctor", "doctors"], M, ["médecin", "médecins"], PERSON | PROFESSION),
    noun(["teacher", "teachers"], M, ["professeur", "professeurs"], PERSON | PROFESSION),
    noun(["student", "students"], M, ["étudiant", "étudiants"], PERSON | PROFESSION | TRAINED),
    noun(["cook", "cooks"], M, ["cuisinier", "cuisiniers"], PERSON | PROFESSION),
    noun(["friend", "friends"], M, ["ami", "amis"], PERSON),
    noun(["brother", "brothers"], M, ["frère", "frères"], PERSON),
    noun(["sister", "sisters"], F, ["sœur", "sœurs"], PERSON),
    noun(["mother", "mothers"], F, ["mère", "mères"], PERSON),
    noun(["hero", "heroes"], M, ["héros", "héros"], PERSON | NOBODYS),
    noun(["citizen", "citizens"], M, ["citoyen", "citoyens"], PERSON | NOBODYS),
    noun(["cat", "cats"], M, ["chat", "chats"], ANIMAL | GOODS | COLOURED),
    noun(["dog", "dogs"], M, ["chien", "chiens"], ANIMAL | TRAINED | GOODS),
    noun(["horse", "horses"], M, ["cheval", "chevaux"], ANIMAL | TRAINED | GOODS),
    noun(["mouse", "mice"], F, ["souris", "souris"], ANIMAL),
    noun(["bird", "birds"], M, ["oiseau", "oiseaux"], ANIMAL | BIRD | COLOURED),
    noun(["duck", "ducks"], M, ["canard", "canards"], ANIMAL | BIRD | GOODS),
    noun(["owl", "owls"], M, ["hibou", "hiboux"], ANIMAL | BIRD),
    noun(["fly", "flies"], F, ["mouche", "mouches"], ANIMAL | INSECT | NOBODYS),
    Noun { count: Count::SingularOnly, ..noun(["fish", "fish"], M, ["poisson", "poissons"], ANIMAL | FOOD | GOODS) },
    noun(["apple", "apples"], F, ["pomme", "pommes"], FOOD | GOODS | PORTABLE | COLOURED),
    noun(["orange", "oranges"], F, ["orange", "oranges"], FOOD | GOODS | PORTABLE),
    noun(["cake", "cakes"], M, ["gâteau", "gâteaux"], FOOD | GOODS | PORTABLE),
    noun(["egg", "eggs"], M, ["œuf", "œufs"], FOOD | GOODS | PORTABLE),
    mass("bread", M, "pain", FOOD | GOODS),
    mass("cheese", M, "fromage", FOOD | GOODS),
    mass("soup", F, "soupe", FOOD | SERVED_HOT),
    mass("water", F, "eau", DRINK | SERVED_HOT),
    mass("tea", M, "thé", DRINK | SERVED_HOT | GOODS),
    noun(["book", "books"], M, ["livre", "livres"], TOOL | TEXT | WRITTEN | OPENED | HEAVY | COLOURED),
    noun(["letter", "letters"], F, ["lettre", "lettres"], PORTABLE | TEXT | WRITTEN | OPENED | AWAITED),
    noun(["newspaper", "newspapers"], M, ["journal", "journaux"], TOOL | TEXT),
    noun(["story", "stories"], F, ["histoire", "histoires"], TEXT | WRITTEN | TOLD),
    noun(["song", "songs"], F, ["chanson", "chansons"], WRITTEN | SUNG),
    noun(["play", "plays"], F, ["pièce", "pièces"], WRITTEN | SHOWN),
    noun(["film", "films"], M, ["film", "films"], SHOWN),
    noun(["hat", "hats"], M, ["chapeau", "chapeaux"], GARMENT),
    noun(["coat", "coats"], M, ["manteau", "manteaux"], GARMENT | HEAVY),
    noun(["dress", "dresses"], F, ["robe", "robes"], GARMENT),
    noun(["glove", "gloves"], M, ["gant", "gants"], GARMENT | PAIR),
    noun(["shoe", "shoes"], F, ["chaussure", "chaussures"], GARMENT | PAIR | CLEANED),
    noun(["bag", "bags"], M, ["sac", "sacs"], TOOL | CONTAINER | EMPTIED | OPENED | HEAVY | COLOURED),
    noun(["box", "boxes"], F, ["boîte", "boîtes"], TOOL | CONTAINER | EMPTIED | OPENED | HEAVY | COLOURED),
    noun(["can", "cans"], F, ["canette", "canettes"], TOOL | EMPTIED | OPENED),
    noun(["glass", "glasses"], M, ["verre", "verres"], TOOL | EMPTIED | CLEANED | BROKEN),
    noun(["key", "keys"], F, ["clé", "clés"], TOOL),
    noun(["saw", "saws"], F, ["scie", "scies"], TOOL | CLEANED | BROKEN | HEAVY),
    noun(["watch", "watches"], F, ["montre", "montres"], TOOL | WORN | BROKEN),
    noun(["ring", "rings"], F, ["bague", "bagues"], TOOL | WORN),
    noun(["knife", "knives"], M, ["couteau", "couteaux"], TOOL | CLEANED),
    noun(["gift", "gifts"], M, ["cadeau", "cadeaux"], TOOL | OPENED | AWAITED),
    noun(["bell", "bells"], F, ["cloche", "cloches"], TOOL | SOUNDING | HEAVY),
    noun(["lamp", "lamps"], F, ["lampe", "lampes"], TOOL | FIRE | BROKEN),
    noun(["fire", "fires"], M, ["feu", "feux"], FIRE | NOBODYS),
    noun(["light", "lights"], F, ["lumière", "lumières"], BEAM | COLOURED | NOBODYS),
    noun(["car", "cars"], F, ["voiture", "voitures"], VEHICLE | PARKED | GOODS | CLEANED | LANDMARK | COLOURED),
    noun(["truck", "trucks"], M, ["camion", "camions"], VEHICLE | PARKED | GOODS | LANDMARK | COLOURED),
    noun(["bicycle", "bicycles"], M, ["vélo", "vélos"], VEHICLE | PARKED | GOODS | BROKEN | COLOURED),
    noun(["train", "trains"], M, ["train", "trains"], VEHICLE | AWAITED | EMPTIED | NOBODYS),
    noun(["boat", "boats"], M, ["bateau", "bateaux"], VEHICLE | AWAITED | GOODS | PAINTED | COLOURED),
    noun(["table", "tables"], F, ["table", "tables"], GOODS | BOOKED | SURFACE | SHELTER | CLEANED | PAINTED),
    noun(["chair", "chairs"], F, ["chaise", "chaises"], GOODS | SURFACE | SHELTER | PAINTED | BROKEN),
    noun(["bed", "beds"], M, ["lit", "lits"], GOODS | SURFACE | SHELTER),
    noun(["door", "doors"], F, ["porte", "portes"], OPENED | PAINTED | LANDMARK | BROKEN | COLOURED),
    noun(["window", "windows"], F, ["fenêtre", "fenêtres"], OPENED | CLEANED | LANDMARK | BROKEN),
    noun(["room", "rooms"], F, ["chambre", "chambres"], BOOKED | CLEANED | EMPTIED | PAINTED),
    noun(["ticket", "tickets"], M, ["billet", "billets"], TOOL | BOOKED),
    noun(["tree", "trees"], M, ["arbre", "arbres"], PLANT | PAINTED | SHELTER | LANDMARK),
    noun(["flower", "flowers"], F, ["fleur", "fleurs"], PLANT | GOODS | COLOURED),
    noun(["rose", "roses"], F, ["rose", "roses"], PLANT | GOODS | COLOURED),
    noun(["plant", "plants"], F, ["plante", "plantes"], PLANT | GOODS),
    noun(["wrong", "wrongs"], M, ["tort", "torts"], WRONG | NOBODYS),
    place(Location::In, noun(["park", "parks"], M, ["parc", "parcs"], GOAL | LEFT | NOBODYS)),
    place(Location::In, noun(["garden", "gardens"], M, ["jardin", "jardins"], GARDEN | PAINTED)),
    place(
        Location::In,
        noun(["house", "houses"], F, ["maison", "maisons"], VISITED | LEFT | CLEANED | PAINTED | LANDMARK),
    ),
    place(Location::In, noun(["kitchen", "kitchens"], F, ["cuisine", "cuisines"], CLEANED | PAINTED)),
    place(Location::In, noun(["village", "villages"], M, ["village", "villages"], GOAL | VISITED | LEFT)),
    place(Location::In, noun(["street", "streets"], F, ["rue", "rues"], EMPTIED)),
    place(Location::In, noun(["forest", "forests"], F, ["forêt", "forêts"], PAINTED | NOBODYS)),
    place(Location::In, noun(["church", "churches"], F, ["église", "églises"], GOAL | VISITED | LANDMARK | NOBODYS)),
    place(Location::At, noun(["school", "schools"], F, ["école", "écoles"], GOAL | VISITED | LEFT | LANDMARK)),
    place(Location::At, noun(["market", "markets"], M, ["marché", "marchés"], GOAL | VISITED | NOBODYS)),
    place(Location::At, noun(["station", "stations"], F, ["gare", "gares"], GOAL | LEFT | LANDMARK | NOBODYS)),
    place(
        Location::At,
        noun(["hospital", "hospitals"], M, ["hôpital", "hôpitaux"], GOAL | VISITED | LEFT | LANDMARK | NOBODYS),
    ),
    place(Location::At, noun(["hotel", "hotels"], M, ["hôtel", "hôtels"], GOAL | LEFT | LANDMARK | BOOKED | NOBODYS)),
    place(Location::On, noun(["beach", "beaches"], F, ["plage", "plages"], GOAL | LEFT | NOBODYS)),
    place(Location::On, noun(["bridge", "bridges"], M, ["pont", "ponts"], PAINTED | SHELTER | LANDMARK | NOBODYS)),
    place(Location::On, noun(["island", "islands"], F, ["île", "îles"], VISITED | LEFT | PAINTED | NOBODYS)),
];
