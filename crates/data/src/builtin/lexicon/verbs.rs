//! Verbs.

use super::super::Upos;
use super::class::*;
use super::{Auxiliary, Frame, Manners, Past, Present, Verb};
use Present::{Er, Forms};

const fn transitive(
    english: [&'static str; 3],
    infinitive: &'static str,
    present: Present,
    participle: &'static str,
    objects: u64,
) -> Verb {
    Verb {
        english,
        particle: None,
        present,
        infinitive,
        participle,
        past: Past::Compound(Auxiliary::Avoir),
        frame: Frame::Transitive,
        manners: Manners::None,
        subjects: PERSON,
        objects,
    }
}

const fn with(particle: &'static str, tag: Upos, verb: Verb) -> Verb {
    Verb { particle: Some((particle, tag)), ..verb }
}

const fn framed(frame: Frame, verb: Verb) -> Verb {
    Verb { frame, ..verb }
}

const fn state(stem: &'static str, verb: Verb) -> Verb {
    Verb { past: Past::Imperfect(stem), ..verb }
}

const fn alone(
    english: [&'static str; 3],
    infinitive: &'static str,
    present: Present,
    participle: &'static str,
    manners: Manners,
    subjects: u64,
) -> Verb {
    Verb { frame: Frame::Alone, manners, subjects, ..transitive(english, infinitive, present, participle, 0) }
}

const fn moving(
    frame: Frame,
    english: [&'static str; 3],
    infinitive: &'static str,
    present: Present,
    participle: &'static str,
) -> Verb {
    let past = Past::Compound(Auxiliary::Etre);
    Verb { frame, past, ..transitive(english, infinitive, present, participle, 0) }
}

const ANYTHING: u64 = PERSON
    | ANIMAL
    | GOODS
    | PORTABLE
    | SHOWN
    | VEHICLE
    | PLACE
    | PLANT
    | FIRE
    | BEAM
    | SOUNDING
    | SURFACE
    | OPENED
    | BOOKED;
const LIKED: u64 = ANIMAL | FOOD | DRINK | TEXT | TOLD | SUNG | SHOWN | CLOTHES | PLANT | VEHICLE | GARDEN;
const COME: Present = Forms(["viens", "viens", "vient", "venons", "viennent"]);

/// To be; its English forms are too irregular for the table, so they live with the rules.
pub(in crate::builtin) static BE: Verb =
    state("ét", transitive(["be", "is", "was"], "être", Forms(["suis", "es", "est", "sommes", "sont"]), "été", 0));

/// The near future: "I am going to see" is "je vais voir".
pub(in crate::builtin) static GO: Verb =
    moving(Frame::Goal, ["go", "goes", "went"], "aller", Forms(["vais", "vas", "va", "allons", "vont"]), "allé");

/// To have, a verb of its own and the auxiliary of most compound pasts.
pub(in crate::builtin) static HAVE: Verb = state(
    "av",
    transitive(["have", "has", "had"], "avoir", Forms(["ai", "as", "a", "avons", "ont"]), "eu", GOODS | BOOKED),
);

/// Verbs that take another verb, all in the present.
pub(in crate::builtin) static CAN: Verb =
    transitive(["can", "can", "could"], "pouvoir", Forms(["peux", "peux", "peut", "pouvons", "peuvent"]), "pu", 0);
/// See [`CAN`].
pub(in crate::builtin) static MUST: Verb =
    transitive(["must", "must", "must"], "devoir", Forms(["dois", "dois", "doit", "devons", "doivent"]), "dû", 0);
/// See [`CAN`].
pub(in crate::builtin) static WANT: Verb = transitive(
    ["want", "wants", "wanted"],
    "vouloir",
    Forms(["veux", "veux", "veut", "voulons", "veulent"]),
    "voulu",
    0,
);

/// Verbs before a clause with "that".
pub(in crate::builtin) static THINKING: &[Verb] = &[
    transitive(["think", "thinks", "thought"], "penser", Er("pens"), "pensé", 0),
    transitive(["say", "says", "said"], "dire", Forms(["dis", "dis", "dit", "disons", "disent"]), "dit", 0),
    transitive(["know", "knows", "knew"], "savoir", Forms(["sais", "sais", "sait", "savons", "savent"]), "su", 0),
];

/// Every other verb.
pub(in crate::builtin) static VERBS: &[Verb] = &[
    transitive(["see", "sees", "saw"], "voir", Forms(["vois", "vois", "voit", "voyons", "voient"]), "vu", ANYTHING),
    transitive(
        ["watch", "watches", "watched"],
        "regarder",
        Er("regard"),
        "regardé",
        PERSON | ANIMAL | SHOWN | VEHICLE | FIRE,
    ),
    transitive(
        ["buy", "buys", "bought"],
        "acheter",
        Forms(["achète", "achètes", "achète", "achetons", "achètent"]),
        "acheté",
        GOODS,
    ),
    transitive(["find", "finds", "found"], "trouver", Er("trouv"), "trouvé", PORTABLE | ANIMAL | VEHICLE),
    transitive(
        ["lose", "loses", "lost"],
        "perdre",
        Forms(["perds", "perds", "perd", "perdons", "perdent"]),
        "perdu",
        PORTABLE,
    ),
    transitive(
        ["sell", "sells", "sold"],
        "vendre",
        Forms(["vends", "vends", "vend", "vendons", "vendent"]),
        "vendu",
        GOODS,
    ),
    transitive(
        ["take", "takes", "took"],
        "prendre",
        Forms(["prends", "prends", "prend", "prenons", "prennent"]),
        "pris",
        PORTABLE | VEHICLE,
    ),
    transitive(["read", "reads", "read"], "lire", Forms(["lis", "lis", "lit", "lisons", "lisent"]), "lu", TEXT),
    transitive(
        ["write", "writes", "wrote"],
        "écrire",
        Forms(["écris", "écris", "écrit", "écrivons", "écrivent"]),
        "écrit",
        WRITTEN,
    ),
    transitive(
        ["open", "opens", "opened"],
        "ouvrir",
        Forms(["ouvre", "ouvres", "ouvre", "ouvrons", "ouvrent"]),
        "ouvert",
        OPENED,
    ),
    transitive(["close", "closes", "closed"], "fermer", Er("ferm"), "fermé", OPENED),
    transitive(
        ["eat", "eats", "ate"],
        "manger",
        Forms(["mange", "manges", "mange", "mangeons", "mangent"]),
        "mangé",
        FOOD,
    ),
    transitive(
        ["drink", "drinks", "drank"],
        "boire",
        Forms(["bois", "bois", "boit", "buvons", "boivent"]),
        "bu",
        DRINK,
    ),
    framed(Frame::OfKinds, transitive(["like", "likes", "liked"], "aimer", Er("aim"), "aimé", LIKED)),
    framed(Frame::OfKinds, transitive(["love", "loves", "loved"], "adorer", Er("ador"), "adoré", LIKED)),
    state(
        "connaiss",
        transitive(
            ["know", "knows", "knew"],
            "connaître",
            Forms(["connais", "connais", "connaît", "connaissons", "connaissent"]),
            "connu",
            PERSON | PLACE | TOLD | SUNG | SHOWN,
        ),
    ),
    transitive(["visit", "visits", "visited"], "visiter", Er("visit"), "visité", VISITED),
    transitive(["help", "helps", "helped"], "aider", Er("aid"), "aidé", PERSON),
    transitive(
        ["follow", "follows", "followed"],
        "suivre",
        Forms(["suis", "suis", "suit", "suivons", "suivent"]),
        "suivi",
        PERSON | ANIMAL | VEHICLE | BEAM,
    ),
    transitive(
        ["paint", "paints", "painted"],
        "peindre",
        Forms(["peins", "peins", "peint", "peignons", "peignent"]),
        "peint",
        PAINTED,
    ),
    transitive(
        ["clean", "cleans", "cleaned"],
        "nettoyer",
        Forms(["nettoie", "nettoies", "nettoie", "nettoyons", "nettoient"]),
        "nettoyé",
        CLEANED,
    ),
    transitive(["empty", "empties", "emptied"], "vider", Er("vid"), "vidé", CONTAINER | EMPTIED),
    transitive(["book", "books", "booked"], "réserver", Er("réserv"), "réservé", BOOKED),
    transitive(["park", "parks", "parked"], "garer", Er("gar"), "garé", PARKED),
    transitive(["water", "waters", "watered"], "arroser", Er("arros"), "arrosé", PLANT | GARDEN),
    transitive(["plant", "plants", "planted"], "planter", Er("plant"), "planté", PLANT),
    transitive(["train", "trains", "trained"], "entraîner", Er("entraîn"), "entraîné", TRAINED),
    transitive(["light", "lights", "lit"], "allumer", Er("allum"), "allumé", FIRE),
    transitive(["leave", "leaves", "left"], "quitter", Er("quitt"), "quitté", LEFT | PERSON),
    transitive(["wear", "wears", "wore"], "porter", Er("port"), "porté", CLOTHES | WORN),
    framed(Frame::OfKinds, transitive(["right", "rights", "righted"], "redresser", Er("redress"), "redressé", WRONG)),
    with(
        "for",
        Upos::Adp,
        transitive(
            ["wait", "waits", "waited"],
            "attendre",
            Forms(["attends", "attends", "attend", "attendons", "attendent"]),
            "attendu",
            PERSON | AWAITED,
        ),
    ),
    with(
        "for",
        Upos::Adp,
        transitive(["look", "looks", "looked"], "chercher", Er("cherch"), "cherché", PERSON | ANIMAL | PORTABLE),
    ),
    with(
        "to",
        Upos::Adp,
        transitive(
            ["listen", "listens", "listened"],
            "écouter",
            Er("écout"),
            "écouté",
            PERSON | SUNG | TOLD | BIRD | SOUNDING,
        ),
    ),
    framed(
        Frame::Giving,
        transitive(["give", "gives", "gave"], "donner", Er("donn"), "donné", PORTABLE | PLANT | FOOD | DRINK),
    ),
    framed(
        Frame::Giving,
        transitive(
            ["show", "shows", "showed"],
            "montrer",
            Er("montr"),
            "montré",
            PORTABLE | PLANT | ANIMAL | VEHICLE | PLACE,
        ),
    ),
    framed(
        Frame::Giving,
        transitive(["bring", "brings", "brought"], "apporter", Er("apport"), "apporté", PORTABLE | FOOD | DRINK),
    ),
    framed(Frame::Giving, transitive(["tell", "tells", "told"], "raconter", Er("racont"), "raconté", TOLD)),
    alone(
        ["sleep", "sleeps", "slept"],
        "dormir",
        Forms(["dors", "dors", "dort", "dormons", "dorment"]),
        "dormi",
        Manners::Well,
        PERSON | ANIMAL,
    ),
    alone(["sing", "sings", "sang"], "chanter", Er("chant"), "chanté", Manners::Well, PERSON | BIRD),
    alone(["dance", "dances", "danced"], "danser", Er("dans"), "dansé", Manners::Any, PERSON),
    alone(["work", "works", "worked"], "travailler", Er("travaill"), "travaillé", Manners::Any, PERSON),
    alone(
        ["run", "runs", "ran"],
        "courir",
        Forms(["cours", "cours", "court", "courons", "courent"]),
        "couru",
        Manners::Any,
        PERSON | TRAINED,
    ),
    alone(["walk", "walks", "walked"], "marcher", Er("march"), "marché", Manners::Any, PERSON | TRAINED),
    alone(
        ["swim", "swims", "swam"],
        "nager",
        Forms(["nage", "nages", "nage", "nageons", "nagent"]),
        "nagé",
        Manners::Any,
        PERSON | TRAINED,
    ),
    alone(["fly", "flies", "flew"], "voler", Er("vol"), "volé", Manners::Any, BIRD | INSECT),
    alone(
        ["laugh", "laughs", "laughed"],
        "rire",
        Forms(["ris", "ris", "rit", "rions", "rient"]),
        "ri",
        Manners::None,
        PERSON,
    ),
    alone(
        ["smile", "smiles", "smiled"],
        "sourire",
        Forms(["souris", "souris", "sourit", "sourions", "sourient"]),
        "souri",
        Manners::None,
        PERSON,
    ),
    alone(["fish", "fishes", "fished"], "pêcher", Er("pêch"), "pêché", Manners::None, PERSON),
    alone(["play", "plays", "played"], "jouer", Er("jou"), "joué", Manners::Well, PERSON | TRAINED),
    alone(["cook", "cooks", "cooked"], "cuisiner", Er("cuisin"), "cuisiné", Manners::Well, PERSON),
    alone(["ring", "rings", "rang"], "sonner", Er("sonn"), "sonné", Manners::None, SOUNDING),
    moving(Frame::Alone, ["arrive", "arrives", "arrived"], "arriver", Er("arriv"), "arrivé"),
    moving(
        Frame::Alone,
        ["leave", "leaves", "left"],
        "partir",
        Forms(["pars", "pars", "part", "partons", "partent"]),
        "parti",
    ),
    moving(Frame::Alone, ["fall", "falls", "fell"], "tomber", Er("tomb"), "tombé"),
    with(
        "back",
        Upos::Adv,
        moving(
            Frame::Alone,
            ["come", "comes", "came"],
            "revenir",
            Forms(["reviens", "reviens", "revient", "revenons", "reviennent"]),
            "revenu",
        ),
    ),
    moving(Frame::Goal, ["go", "goes", "went"], "aller", Forms(["vais", "vas", "va", "allons", "vont"]), "allé"),
    moving(Frame::Goal, ["come", "comes", "came"], "venir", COME, "venu"),
    moving(Frame::Place, ["stay", "stays", "stayed"], "rester", Er("rest"), "resté"),
    Verb {
        past: Past::Imperfect("habit"),
        ..moving(Frame::Place, ["live", "lives", "lived"], "habiter", Er("habit"), "habité")
    },
    moving(Frame::Origin, ["come", "comes", "came"], "venir", COME, "venu"),
];
