//! Hand-written pairs, one construction each: the rules must say both sides.

use crate::builtin::clause::{Clause, Degree, Modal, Object, Order, Polarity, Predicate, Recipient, Subject, Tense};
use crate::builtin::lexicon::{Adjective, Count, Frame, Gender, Noun, Number, Verb, WORDS};
use crate::builtin::phrase::{Determiner, Ground, NounPhrase, Place, Relation};
use crate::builtin::pronoun::{Agreement, Pronoun};
use crate::builtin::sentence::{Asked, Joint, Tree};
use Polarity::{Never, Not, Yes};
use Tense::{Future, Past, Present};

fn noun(word: &str) -> (&'static Noun, Number) {
    let found = |form: usize| WORDS.nouns.iter().find(|noun| noun.english[form] == word);
    found(0)
        .map(|noun| (noun, Number::Singular))
        .or_else(|| found(1).map(|noun| (noun, Number::Plural)))
        .unwrap_or_else(|| panic!("no noun {word}"))
}

fn adjective(word: &str) -> &'static Adjective {
    WORDS.adjectives.iter().find(|adjective| adjective.english == word).unwrap_or_else(|| panic!("no adjective {word}"))
}

fn verb(infinitive: &str) -> &'static Verb {
    let mut all = WORDS.verbs.iter().chain([WORDS.verb("avoir")]);
    all.find(|verb| verb.infinitive == infinitive).unwrap_or_else(|| panic!("no verb {infinitive}"))
}

fn pronoun(word: &str) -> Option<Pronoun> {
    Some(match word {
        "I" | "me" | "my" => Pronoun::I,
        "you" | "your" => Pronoun::You,
        "he" | "him" | "his" => Pronoun::He,
        "she" | "her" => Pronoun::She,
        "we" | "us" | "our" => Pronoun::We,
        "they" | "them" | "their" => Pronoun::They,
        _ => return None,
    })
}

/// "the small red car", "Anna 's book", "the king 's horse", "cats".
fn phrase(text: &str) -> NounPhrase {
    if let Some((owner, rest)) = text.split_once(" 's ") {
        let rest = phrase(&format!("the {rest}"));
        let determiner = match WORDS.names.iter().find(|name| name.text == owner) {
            Some(name) => Determiner::OfName(name),
            None => Determiner::OfNoun(noun(owner.trim_start_matches("the ")).0),
        };
        return NounPhrase { determiner, ..rest };
    }
    let words: Vec<&str> = text.split(' ').collect();
    let (last, before) = words.split_last().expect("a noun");
    let (noun, number) = noun(last);
    let Some((first, adjectives)) = before.split_first() else {
        return NounPhrase { determiner: Determiner::Kind, adjectives: vec![], noun, number };
    };
    let determiner = match *first {
        "the" => Determiner::The,
        "a" | "an" | "some" | "any" => Determiner::Indefinite,
        "this" | "these" => Determiner::This,
        "that" | "those" => Determiner::That,
        "many" => Determiner::Many,
        other => match (pronoun(other), WORDS.numbers.iter().position(|number| number.0 == other)) {
            (Some(owner), _) => Determiner::My(owner),
            (_, Some(index)) => Determiner::Number(index),
            _ => panic!("no determiner {other}"),
        },
    };
    NounPhrase { determiner, adjectives: adjectives.iter().map(|word| adjective(word)).collect(), noun, number }
}

fn subject(text: &str) -> Subject {
    let name = |text: &str| WORDS.names.iter().find(|name| name.text == text);
    if text == "who" {
        return Subject::Who(Agreement::third(Gender::Masculine, Number::Singular));
    }
    if let Some(pronoun) = pronoun(text) {
        return Subject::Pronoun(pronoun);
    }
    if let Some((first, second)) = text.split_once(" and ") {
        return Subject::Names(name(first).expect("a name"), name(second).expect("a name"));
    }
    name(text).map_or_else(|| Subject::Phrase(phrase(text)), Subject::Name)
}

fn clause(who: &str, tense: Tense, polarity: Polarity, predicate: Predicate) -> Clause {
    let (modal, frequency, manner, place, time) = (None, None, None, None, None);
    Clause { subject: subject(who), tense, polarity, modal, predicate, frequency, manner, place, time }
}

fn act(who: &str, tense: Tense, polarity: Polarity, infinitive: &str, what: &str) -> Clause {
    let object = match (what, pronoun(what)) {
        ("", _) => Object::None,
        (_, Some(pronoun)) => Object::Pronoun(pronoun),
        _ => Object::Phrase(phrase(what)),
    };
    clause(who, tense, polarity, Predicate::Do { verb: verb(infinitive), object, recipient: Recipient::None })
}

fn give(who: &str, tense: Tense, polarity: Polarity, infinitive: &str, what: &str, whom: &str) -> Clause {
    let recipient = pronoun(whom).map_or_else(
        || WORDS.names.iter().find(|n| n.text == whom).map_or_else(|| Recipient::Phrase(phrase(whom)), Recipient::Name),
        Recipient::Pronoun,
    );
    let object = Object::Phrase(phrase(what));
    clause(who, tense, polarity, Predicate::Do { verb: verb(infinitive), object, recipient })
}

fn is(who: &str, tense: Tense, polarity: Polarity, degree: Degree, word: &str) -> Clause {
    clause(who, tense, polarity, Predicate::Quality(adjective(word), degree))
}

/// The object is a pronoun for `what`, or stands before the clause.
fn meant(mut clause: Clause, what: &str, object: fn(Gender, Number) -> Object) -> Clause {
    let (noun, number) = noun(what);
    if let Predicate::Do { object: slot, .. } = &mut clause.predicate {
        *slot = object(noun.gender, number);
    }
    clause
}

fn it(gender: Gender, number: Number) -> Object {
    Object::Pronoun(Pronoun::Named(gender, number))
}

fn with_modal(modal: Modal, clause: Clause) -> Clause {
    Clause { modal: Some(modal), ..clause }
}

fn at(relation: Relation, ground: &str, clause: Clause) -> Clause {
    let land = WORDS.lands.iter().find(|land| land.english == ground);
    let ground = land.map_or_else(|| Ground::Phrase(phrase(ground)), Ground::Land);
    Clause { place: Some(Place { relation, ground }), ..clause }
}

fn there(order: Order, tense: Tense, polarity: Polarity, what: &str, relation: Relation, ground: &str) -> Tree {
    let place = Place { relation, ground: Ground::Phrase(phrase(ground)) };
    Tree::Existence { order, tense, polarity, phrase: phrase(what), place }
}

fn cases() -> Vec<(Tree, &'static str, &'static str)> {
    use Degree::{Plain, Too, Very};
    use Tree::{Joined, Question, Relative, Statement as S, That, WhereIs, Who};
    let thinking = |base: &str| WORDS.thinking.iter().find(|verb| verb.english[0] == base).expect("a verb of thinking");
    let ask = |clause| Question(Asked::Whether, clause);
    vec![
        // Homographs.
        (S(act("I", Past, Yes, "voir", "a saw")), "I saw a saw.", "J'ai vu une scie."),
        (
            S(with_modal(Modal::Right, act("citizens", Present, Yes, "redresser", "wrongs"))),
            "Citizens have the right to right wrongs.",
            "Les citoyens ont le droit de redresser les torts.",
        ),
        (
            S(with_modal(Modal::Can, act("you", Present, Yes, "ouvrir", "the can"))),
            "You can open the can.",
            "Tu peux ouvrir la canette.",
        ),
        (S(act("they", Past, Yes, "réserver", "a table")), "They booked a table.", "Ils ont réservé une table."),
        (S(act("she", Present, Yes, "lire", "her book")), "She reads her book.", "Elle lit son livre."),
        (S(act("I", Present, Yes, "regarder", "a play")), "I watch a play.", "Je regarde une pièce."),
        (S(act("Louis", Past, Yes, "perdre", "his watch")), "Louis lost his watch.", "Louis a perdu sa montre."),
        (
            S(act("the man", Present, Yes, "entraîner", "the horse")),
            "The man trains the horse.",
            "L'homme entraîne le cheval.",
        ),
        (
            S(act("we", Past, Not, "prendre", "the train")),
            "We did not take the train.",
            "Nous n'avons pas pris le train.",
        ),
        (S(act("we", Past, Yes, "arroser", "the plants")), "We watered the plants.", "Nous avons arrosé les plantes."),
        (
            S(act("the teachers", Present, Yes, "planter", "a tree")),
            "The teachers plant a tree.",
            "Les professeurs plantent un arbre.",
        ),
        (S(act("Anna", Past, Yes, "allumer", "the lamp")), "Anna lit the lamp.", "Anna a allumé la lampe."),
        (S(act("flies", Present, Yes, "voler", "")), "Flies fly.", "Les mouches volent."),
        (S(act("the bells", Past, Yes, "sonner", "")), "The bells rang.", "Les cloches ont sonné."),
        (S(act("Marie", Past, Yes, "quitter", "the village")), "Marie left the village.", "Marie a quitté le village."),
        (S(act("Marie", Past, Yes, "partir", "")), "Marie left.", "Marie est partie."),
        (S(act("I", Past, Yes, "perdre", "my left glove")), "I lost my left glove.", "J'ai perdu mon gant gauche."),
        (
            S(act("he", Past, Yes, "trouver", "the right shoe")),
            "He found the right shoe.",
            "Il a trouvé la chaussure droite.",
        ),
        (
            S(at(Relation::OnTheBackOf, "a horse", act("they", Past, Yes, "revenir", ""))),
            "They came back on the back of a horse.",
            "Ils sont revenus sur le dos d'un cheval.",
        ),
        (S(act("the cook", Present, Yes, "cuisiner", "")), "The cook cooks.", "Le cuisinier cuisine."),
        (
            S(act("she", Past, Yes, "vider", "the empty box")),
            "She emptied the empty box.",
            "Elle a vidé la boîte vide.",
        ),
        (
            S(at(Relation::There, "the park", act("Paul", Past, Yes, "garer", "the car"))),
            "Paul parked the car in the park.",
            "Paul a garé la voiture dans le parc.",
        ),
        // Elision, contraction, the two kinds of h, forms before a vowel.
        (S(act("I", Present, Yes, "aimer", "cheese")), "I like cheese.", "J'aime le fromage."),
        (S(act("the hero", Present, Yes, "suivre", "the owl")), "The hero follows the owl.", "Le héros suit le hibou."),
        (
            S(act("this man", Present, Yes, "raconter", "the story")),
            "This man tells the story.",
            "Cet homme raconte l'histoire.",
        ),
        (
            S(act("an old man", Past, Yes, "planter", "a beautiful tree")),
            "An old man planted a beautiful tree.",
            "Un vieil homme a planté un bel arbre.",
        ),
        (
            S(act("we", Present, Yes, "avoir", "a new student")),
            "We have a new student.",
            "Nous avons un nouvel étudiant.",
        ),
        (
            S(act("she", Past, Yes, "visiter", "my old school")),
            "She visited my old school.",
            "Elle a visité ma vieille école.",
        ),
        (
            S(at(Relation::To, "my school", act("they", Past, Yes, "aller", ""))),
            "They went to my school.",
            "Ils sont allés à mon école.",
        ),
        (
            S(at(Relation::To, "the market", act("she", Past, Yes, "aller", ""))),
            "She went to the market.",
            "Elle est allée au marché.",
        ),
        (
            S(at(Relation::To, "the hospital", act("Emma", Present, Not, "aller", ""))),
            "Emma does not go to the hospital.",
            "Emma ne va pas à l'hôpital.",
        ),
        (
            S(at(Relation::There, "Japan", act("Antoine", Past, Yes, "habiter", ""))),
            "Antoine lived in Japan.",
            "Antoine habitait au Japon.",
        ),
        (
            S(at(Relation::There, "Italy", act("I", Past, Yes, "rester", ""))),
            "I stayed in Italy.",
            "Je suis resté en Italie.",
        ),
        (
            S(at(Relation::To, "London", act("Anna and Marie", Past, Yes, "aller", ""))),
            "Anna and Marie went to London.",
            "Anna et Marie sont allées à Londres.",
        ),
        (
            S(at(Relation::Near, "the station", clause("the boys", Past, Not, Predicate::There))),
            "The boys were not near the station.",
            "Les garçons n'étaient pas près de la gare.",
        ),
        (
            S(at(Relation::Near, "the bridge", clause("she", Present, Yes, Predicate::There))),
            "She is near the bridge.",
            "Elle est près du pont.",
        ),
        (
            S(act("I", Past, Yes, "voir", "the king 's horses")),
            "I saw the king's horses.",
            "J'ai vu les chevaux du roi.",
        ),
        (
            S(act("I", Present, Yes, "chercher", "Anna 's blue coat")),
            "I look for Anna's blue coat.",
            "Je cherche le manteau bleu d'Anna.",
        ),
        (S(act("he", Past, Yes, "boire", "some cold water")), "He drank some cold water.", "Il a bu de l'eau froide."),
        (
            S(act("we", Past, Yes, "manger", "some good bread")),
            "We ate some good bread.",
            "Nous avons mangé du bon pain.",
        ),
        (
            S(act("she", Past, Yes, "acheter", "some old books")),
            "She bought some old books.",
            "Elle a acheté de vieux livres.",
        ),
        (
            S(act("she", Past, Yes, "acheter", "some orange roses")),
            "She bought some orange roses.",
            "Elle a acheté des roses orange.",
        ),
        (
            S(act("they", Past, Yes, "peindre", "a big white house")),
            "They painted a big white house.",
            "Ils ont peint une grande maison blanche.",
        ),
        (
            S(act("I", Present, Yes, "lire", "many newspapers")),
            "I read many newspapers.",
            "Je lis beaucoup de journaux.",
        ),
        (S(act("I", Past, Yes, "voir", "three owls")), "I saw three owls.", "J'ai vu trois hiboux."),
        // Negation.
        (S(act("I", Present, Not, "avoir", "a cat")), "I do not have a cat.", "Je n'ai pas de chat."),
        (
            S(act("you", Past, Not, "acheter", "any apples")),
            "You did not buy any apples.",
            "Tu n'as pas acheté de pommes.",
        ),
        (S(act("we", Past, Never, "boire", "some tea")), "We never drank any tea.", "Nous n'avons jamais bu de thé."),
        (
            S(with_modal(Modal::Can, act("he", Present, Not, "voir", "her"))),
            "He cannot see her.",
            "Il ne peut pas la voir.",
        ),
        (
            S(act("she", Future, Not, "vendre", "the boat")),
            "She is not going to sell the boat.",
            "Elle ne va pas vendre le bateau.",
        ),
        // Pronouns.
        (S(act("I", Present, Yes, "voir", "her")), "I see her.", "Je la vois."),
        (S(act("I", Past, Yes, "voir", "her")), "I saw her.", "Je l'ai vue."),
        (S(act("you", Past, Not, "aider", "us")), "You did not help us.", "Tu ne nous as pas aidés."),
        (
            S(with_modal(Modal::Right, act("they", Present, Yes, "suivre", "him"))),
            "They have the right to follow him.",
            "Ils ont le droit de le suivre.",
        ),
        (
            S(act("Sophie", Future, Yes, "attendre", "them")),
            "Sophie is going to wait for them.",
            "Sophie va les attendre.",
        ),
        (S(give("she", Past, Yes, "donner", "the key", "him")), "She gave him the key.", "Elle lui a donné la clé."),
        (
            S(give("we", Present, Yes, "montrer", "the island", "the boy")),
            "We show the island to the boy.",
            "Nous montrons l'île au garçon.",
        ),
        (
            S(give("Marc", Past, Yes, "apporter", "two glasses", "Alice")),
            "Marc brought two glasses to Alice.",
            "Marc a apporté deux verres à Alice.",
        ),
        (
            Joined(
                act("Anna", Past, Yes, "acheter", "a watch"),
                Joint::But,
                meant(act("she", Past, Yes, "perdre", ""), "watch", it),
            ),
            "Anna bought a watch, but she lost it.",
            "Anna a acheté une montre, mais elle l'a perdue.",
        ),
        (
            Joined(
                is("the knives", Present, Yes, Very, "old"),
                Joint::And,
                meant(act("I", Past, Yes, "nettoyer", ""), "knives", it),
            ),
            "The knives are very old, and I cleaned them.",
            "Les couteaux sont très vieux, et je les ai nettoyés.",
        ),
        // To be.
        (S(is("the girls", Past, Yes, Plain, "happy")), "The girls were happy.", "Les filles étaient heureuses."),
        (S(is("Emma", Future, Yes, Plain, "tired")), "Emma is going to be tired.", "Emma va être fatiguée."),
        (
            S(is("these boxes", Present, Yes, Too, "light")),
            "These boxes are too light.",
            "Ces boîtes sont trop légères.",
        ),
        (
            S(clause("my brother", Present, Yes, Predicate::Profession(noun("doctor").0))),
            "My brother is a doctor.",
            "Mon frère est médecin.",
        ),
        (
            there(Order::Statement, Present, Not, "some water", Relation::In, "the box"),
            "There is no water in the box.",
            "Il n'y a pas d'eau dans la boîte.",
        ),
        (
            there(Order::Question, Past, Yes, "some eggs", Relation::On, "the table"),
            "Were there any eggs on the table?",
            "Est-ce qu'il y avait des œufs sur la table ?",
        ),
        // Questions.
        (ask(act("Alice", Present, Yes, "connaître", "him")), "Does Alice know him?", "Est-ce qu'Alice le connaît ?"),
        (
            ask(with_modal(Modal::Can, act("you", Present, Yes, "nager", ""))),
            "Can you swim?",
            "Est-ce que tu peux nager ?",
        ),
        (
            Question(Asked::Where, act("you", Past, Yes, "trouver", "my keys")),
            "Where did you find my keys?",
            "Où est-ce que tu as trouvé mes clés ?",
        ),
        (
            Question(Asked::Why, act("you", Past, Not, "dormir", "")),
            "Why did you not sleep?",
            "Pourquoi est-ce que tu n'as pas dormi ?",
        ),
        (
            Question(Asked::What, act("he", Past, Yes, "chercher", "")),
            "What did he look for?",
            "Qu'est-ce qu'il a cherché ?",
        ),
        (Who(act("who", Past, Yes, "voir", "the saw")), "Who saw the saw?", "Qui a vu la scie ?"),
        (WhereIs(subject("the fish"), Present), "Where is the fish?", "Où est le poisson ?"),
        // Clauses in clauses.
        (
            That(subject("I"), thinking("think"), act("Anna", Present, Yes, "attendre", "me")),
            "I think that Anna waits for me.",
            "Je pense qu'Anna m'attend.",
        ),
        (
            Joined(act("he", Past, Yes, "sourire", ""), Joint::Because, act("Emma", Past, Yes, "arriver", "")),
            "He smiled because Emma arrived.",
            "Il a souri parce qu'Emma est arrivée.",
        ),
        (
            Relative(
                act("I", Past, Yes, "trouver", "the letters"),
                meant(act("he", Past, Yes, "écrire", ""), "letters", Object::Fronted),
            ),
            "I found the letters that he wrote.",
            "J'ai trouvé les lettres qu'il a écrites.",
        ),
        (
            Relative(act("we", Present, Yes, "connaître", "a woman"), act("who", Past, Yes, "porter", "a ring")),
            "We know a woman who wore a ring.",
            "Nous connaissons une femme qui a porté une bague.",
        ),
        // Adverbs and times.
        (
            S(Clause { frequency: Some(&WORDS.frequency[0]), ..act("she", Past, Yes, "visiter", "the island") }),
            "She often visited the island.",
            "Elle a souvent visité l'île.",
        ),
        (
            S(Clause { manner: Some(&WORDS.manners[0]), ..act("I", Past, Not, "dormir", "") }),
            "I did not sleep well.",
            "Je n'ai pas bien dormi.",
        ),
        (
            S(Clause { manner: Some(&WORDS.manners[1]), ..act("they", Past, Yes, "marcher", "") }),
            "They walked slowly.",
            "Ils ont marché lentement.",
        ),
        (
            S(Clause { time: Some(&WORDS.times_past[1]), ..act("you", Past, Yes, "tomber", "") }),
            "You fell last week.",
            "Tu es tombé la semaine dernière.",
        ),
        (
            S(Clause { time: Some(&WORDS.times_future[0]), ..act("we", Future, Yes, "partir", "") }),
            "We are going to leave tomorrow.",
            "Nous allons partir demain.",
        ),
        (
            S(Clause {
                time: Some(&WORDS.times_present[0]),
                ..with_modal(Modal::Must, act("I", Present, Yes, "travailler", ""))
            }),
            "I must work every day.",
            "Je dois travailler tous les jours.",
        ),
    ]
}

#[test]
fn hand_written_pairs_are_said_as_written() {
    let cases = cases();
    assert!(cases.len() >= 60);
    for (tree, english, french) in cases {
        let sentence = tree.render();
        assert_eq!((sentence.text().as_str(), sentence.french.as_str()), (english, french));
    }
}

#[test]
fn tables_hold_no_word_twice_and_every_verb_finds_its_nouns() {
    for (index, noun) in WORDS.nouns.iter().enumerate() {
        assert!(
            WORDS.nouns[..index].iter().all(|other| other.english[0] != noun.english[0]),
            "{} twice",
            noun.english[0]
        );
        assert!(noun.count == Count::Countable || noun.english[0] == noun.english[1], "{}", noun.english[0]);
        assert_eq!(noun.count == Count::Countable, noun.english[0] != noun.english[1], "{}", noun.english[0]);
    }
    for verb in &WORDS.verbs {
        let takes = matches!(verb.frame, Frame::Transitive | Frame::OfKinds | Frame::Giving);
        assert_eq!(takes, WORDS.nouns.iter().any(|noun| noun.class & verb.objects != 0), "{}", verb.infinitive);
        assert!(WORDS.nouns.iter().any(|noun| noun.class & verb.subjects != 0), "{}", verb.infinitive);
    }
    for adjective in &WORDS.adjectives {
        assert!(WORDS.nouns.iter().any(|noun| noun.class & adjective.class != 0), "{}", adjective.english);
    }
}
