//! Adjectives.

use super::class::*;
use super::{Adjective, Side, Use};

const fn after(english: &'static str, french: [&'static str; 4], class: u64) -> Adjective {
    Adjective { english, french, before_vowel: french[0], side: Side::After, usage: Use::Anywhere, class }
}

const fn before(english: &'static str, french: [&'static str; 4], before_vowel: &'static str, class: u64) -> Adjective {
    Adjective { english, french, before_vowel, side: Side::Before, usage: Use::Anywhere, class }
}

const fn beside_noun(adjective: Adjective) -> Adjective {
    Adjective { usage: Use::BesideNounOnly, ..adjective }
}

const THINGS: u64 = GOODS | PORTABLE | VEHICLE | PLACE | PLANT | OPENED | CONTAINER | SURFACE | BOOKED;

/// Every adjective.
pub(in crate::builtin) static ADJECTIVES: &[Adjective] = &[
    // "un grand homme" is a great man, so people are not big here.
    before(
        "big",
        ["grand", "grande", "grands", "grandes"],
        "grand",
        CONTAINER | VEHICLE | PLACE | PLANT | SURFACE | BOOKED | OPENED,
    ),
    before("small", ["petit", "petite", "petits", "petites"], "petit", THINGS | ANIMAL | BEAM),
    before("old", ["vieux", "vieille", "vieux", "vieilles"], "vieil", THINGS | PERSON | ANIMAL | TOLD | SUNG | WRONG),
    beside_noun(before(
        "new",
        ["nouveau", "nouvelle", "nouveaux", "nouvelles"],
        "nouvel",
        THINGS | PROFESSION | TOLD | SUNG | SHOWN,
    )),
    before("beautiful", ["beau", "belle", "beaux", "belles"], "bel", THINGS | TOLD | SUNG | SHOWN | BEAM),
    before("good", ["bon", "bonne", "bons", "bonnes"], "bon", FOOD | DRINK | TEXT | TOLD | SUNG | SHOWN | PROFESSION),
    before("bad", ["mauvais", "mauvaise", "mauvais", "mauvaises"], "mauvais", TEXT | TOLD | SUNG | SHOWN | PROFESSION),
    before("young", ["jeune", "jeune", "jeunes", "jeunes"], "jeune", PERSON | TRAINED),
    after("red", ["rouge", "rouge", "rouges", "rouges"], COLOURED),
    after("blue", ["bleu", "bleue", "bleus", "bleues"], COLOURED),
    after("black", ["noir", "noire", "noirs", "noires"], COLOURED),
    after("white", ["blanc", "blanche", "blancs", "blanches"], COLOURED),
    after("yellow", ["jaune", "jaune", "jaunes", "jaunes"], COLOURED),
    // Like other colours named after a thing it never agrees.
    after("orange", ["orange", "orange", "orange", "orange"], COLOURED),
    after("heavy", ["lourd", "lourde", "lourds", "lourdes"], HEAVY),
    after("light", ["léger", "légère", "légers", "légères"], HEAVY),
    after("clean", ["propre", "propre", "propres", "propres"], CLEANED | CLOTHES),
    after("empty", ["vide", "vide", "vides", "vides"], EMPTIED),
    after("broken", ["cassé", "cassée", "cassés", "cassées"], BROKEN),
    after("expensive", ["cher", "chère", "chers", "chères"], CLOTHES | WORN | VEHICLE | BOOKED),
    after("cold", ["froid", "froide", "froids", "froides"], SERVED_HOT),
    after("hot", ["chaud", "chaude", "chauds", "chaudes"], SERVED_HOT),
    after("happy", ["heureux", "heureuse", "heureux", "heureuses"], PERSON),
    after("sad", ["triste", "triste", "tristes", "tristes"], PERSON | TOLD | SUNG | SHOWN),
    after("tired", ["fatigué", "fatiguée", "fatigués", "fatiguées"], PERSON | TRAINED),
    after("strong", ["fort", "forte", "forts", "fortes"], PERSON | TRAINED),
    after("clever", ["intelligent", "intelligente", "intelligents", "intelligentes"], PERSON | TRAINED),
    after("famous", ["célèbre", "célèbre", "célèbres", "célèbres"], PERSON | SHOWN | SUNG),
    beside_noun(after("left", ["gauche", "gauche", "gauches", "gauches"], PAIR)),
    beside_noun(after("right", ["droit", "droite", "droits", "droites"], PAIR)),
];
