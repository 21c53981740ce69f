//! A clause: who does what, when and whether, and the two ways of saying it.

use super::Upos;
use super::english::English;
use super::french::{French, participle};
use super::lexicon::closed::{Manner, MannerPlace, Name, Time};
use super::lexicon::verbs::{BE, CAN, GO, HAVE, MUST, WANT};
use super::lexicon::{Adjective, Auxiliary, Gender, Noun, Number, Past, Present, Verb};
use super::phrase::{Mood, NounPhrase, Place, agreed};
use super::pronoun::{Agreement, Person, Pronoun};

#[derive(Clone, Debug)]
pub(super) enum Subject {
    Pronoun(Pronoun),
    Name(&'static Name),
    Names(&'static Name, &'static Name),
    Phrase(NounPhrase),
    /// "who" of a question or of a relative clause, which agrees with what it stands for.
    Who(Agreement),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tense {
    Present,
    Past,
    Future,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polarity {
    Yes,
    Not,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modal {
    Can,
    Must,
    Want,
    /// "to have the right to".
    Right,
}

#[derive(Clone, Debug)]
pub(super) enum Object {
    None,
    Pronoun(Pronoun),
    Phrase(NounPhrase),
    /// Said before the clause: "the watch *that* I bought". The participle agrees with it.
    Fronted(Gender, Number),
}

#[derive(Clone, Debug)]
pub(super) enum Recipient {
    None,
    Pronoun(Pronoun),
    Name(&'static Name),
    Phrase(NounPhrase),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Degree {
    Plain,
    Very,
    Too,
}

#[derive(Clone, Debug)]
pub(super) enum Predicate {
    Do {
        verb: &'static Verb,
        object: Object,
        recipient: Recipient,
    },
    Quality(&'static Adjective, Degree),
    /// "is a doctor": French leaves the article out.
    Profession(&'static Noun),
    /// To be somewhere.
    There,
}

#[derive(Clone, Debug)]
pub(super) struct Clause {
    pub subject: Subject,
    pub tense: Tense,
    pub polarity: Polarity,
    pub modal: Option<Modal>,
    pub predicate: Predicate,
    pub frequency: Option<&'static (&'static str, &'static str)>,
    pub manner: Option<&'static Manner>,
    pub place: Option<Place>,
    pub time: Option<&'static Time>,
}

/// The order of an English clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Statement,
    /// The auxiliary comes before the subject.
    Question,
}

impl Subject {
    pub fn agreement(&self) -> Agreement {
        match self {
            Subject::Pronoun(pronoun) => pronoun.agreement(),
            Subject::Name(name) => Agreement::third(name.gender, Number::Singular),
            Subject::Names(first, second) => {
                let feminine = first.gender == Gender::Feminine && second.gender == Gender::Feminine;
                Agreement::third(if feminine { Gender::Feminine } else { Gender::Masculine }, Number::Plural)
            }
            Subject::Phrase(phrase) => Agreement::third(phrase.noun.gender, phrase.number),
            Subject::Who(agreement) => *agreement,
        }
    }

    pub fn english(&self, out: &mut English) {
        match self {
            Subject::Pronoun(pronoun) => out.push(pronoun.subject(), Upos::Pron),
            Subject::Name(name) => out.push(name.text, Upos::Propn),
            Subject::Names(first, second) => {
                out.push(first.text, Upos::Propn);
                out.push("and", Upos::Cconj);
                out.push(second.text, Upos::Propn);
            }
            Subject::Phrase(phrase) => phrase.english(Mood::Affirmative, out),
            Subject::Who(_) => out.push("who", Upos::Pron),
        }
    }

    pub fn french(&self, out: &mut French) {
        match self {
            Subject::Pronoun(pronoun) => out.push(pronoun.french_subject()),
            Subject::Name(name) => out.push(name.text),
            Subject::Names(first, second) => {
                [first.text, "et", second.text].into_iter().for_each(|word| out.push(word))
            }
            Subject::Phrase(phrase) => phrase.french(Mood::Affirmative, out),
            Subject::Who(_) => out.push("qui"),
        }
    }
}

impl Clause {
    fn is_copula(&self) -> bool {
        !matches!(self.predicate, Predicate::Do { .. })
    }

    fn verb(&self) -> &'static Verb {
        match self.predicate {
            Predicate::Do { verb, .. } => verb,
            _ => &BE,
        }
    }

    fn mood(&self, order: Order) -> Mood {
        match (self.polarity, order) {
            (Polarity::Yes, Order::Statement) => Mood::Affirmative,
            (Polarity::Yes, Order::Question) => Mood::Question,
            _ => Mood::Negative,
        }
    }

    pub fn english(&self, order: Order, out: &mut English) {
        let who = self.subject.agreement();
        let (auxiliary, rest) = self.english_verbs(who, order);
        let negated = self.polarity == Polarity::Not;
        let mut subject = Some(&self.subject);
        if order == Order::Statement
            && let Some(subject) = subject.take()
        {
            subject.english(out);
        }
        match auxiliary {
            Some("can") if negated && order == Order::Statement => out.push("cannot", Upos::Aux),
            Some(auxiliary) => {
                out.push(auxiliary, Upos::Aux);
                if let Some(subject) = subject {
                    subject.english(out);
                }
                if negated {
                    out.push("not", Upos::Part);
                }
            }
            None => {}
        }
        if self.polarity == Polarity::Never {
            out.push("never", Upos::Adv);
        }
        if let Some((frequency, _)) = self.frequency {
            out.push(frequency, Upos::Adv);
        }
        for (word, tag) in rest {
            out.push(word, tag);
        }
        self.english_complements(self.mood(order), out);
    }

    /// The auxiliary, where there is one, and the verbs after it.
    fn english_verbs(&self, who: Agreement, order: Order) -> (Option<&'static str>, Vec<(&'static str, Upos)>) {
        let verb = self.verb();
        let infinitive = (verb.english[0], if self.is_copula() { Upos::Aux } else { Upos::Verb });
        let to = ("to", Upos::Part);
        let supported = self.polarity == Polarity::Not || order == Order::Question;
        let (governor, mut rest) = match (self.modal, self.tense) {
            (Some(Modal::Can), _) => return (Some("can"), vec![infinitive]),
            (Some(Modal::Must), _) => return (Some("must"), vec![infinitive]),
            (Some(Modal::Want), _) => (&WANT, vec![to, infinitive]),
            (Some(Modal::Right), _) => (&HAVE, vec![("the", Upos::Det), ("right", Upos::Noun), to, infinitive]),
            (None, Tense::Future) => {
                return (Some(be(who, Tense::Present)), vec![("going", Upos::Verb), to, infinitive]);
            }
            (None, tense) if self.is_copula() => return (Some(be(who, tense)), vec![]),
            (None, _) => (verb, vec![]),
        };
        let third = who.person == Person::Third && who.number == Number::Singular;
        let past = self.tense == Tense::Past;
        let auxiliary = supported.then_some(if past {
            "did"
        } else if third {
            "does"
        } else {
            "do"
        });
        let form = match (supported, past, third) {
            (true, ..) => 0,
            (_, true, _) => 2,
            (_, _, third) => usize::from(third),
        };
        rest.insert(0, (governor.english[form], Upos::Verb));
        (auxiliary, rest)
    }

    fn english_complements(&self, mood: Mood, out: &mut English) {
        match &self.predicate {
            Predicate::Do { verb, object, recipient } => {
                if let Some((particle, tag)) = verb.particle {
                    out.push(particle, tag);
                }
                if let Recipient::Pronoun(pronoun) = recipient {
                    out.push(pronoun.object(), Upos::Pron);
                }
                match object {
                    Object::Pronoun(pronoun) => out.push(pronoun.object(), Upos::Pron),
                    Object::Phrase(phrase) => phrase.english(mood, out),
                    Object::None | Object::Fronted(..) => {}
                }
                match recipient {
                    Recipient::Name(name) => {
                        out.push("to", Upos::Adp);
                        out.push(name.text, Upos::Propn);
                    }
                    Recipient::Phrase(phrase) => {
                        out.push("to", Upos::Adp);
                        phrase.english(Mood::Affirmative, out);
                    }
                    Recipient::None | Recipient::Pronoun(_) => {}
                }
            }
            Predicate::Quality(adjective, degree) => {
                match degree {
                    Degree::Plain => {}
                    Degree::Very => out.push("very", Upos::Adv),
                    Degree::Too => out.push("too", Upos::Adv),
                }
                out.push(adjective.english, Upos::Adj);
            }
            Predicate::Profession(noun) => {
                out.push("a", Upos::Det);
                out.push(noun.english[0], Upos::Noun);
            }
            Predicate::There => {}
        }
        if let Some(manner) = self.manner {
            out.push(manner.english, Upos::Adv);
        }
        if let Some(place) = &self.place {
            place.english(out);
        }
        for (word, tag) in self.time.iter().flat_map(|time| time.english) {
            out.push(word, *tag);
        }
    }

    pub fn french(&self, order: Order, out: &mut French) {
        let who = self.subject.agreement();
        let verb = self.verb();
        self.subject.french(out);
        if self.polarity != Polarity::Yes {
            out.push("ne");
        }
        let governor = match (self.modal, self.tense) {
            (Some(Modal::Can), _) => Some(&CAN),
            (Some(Modal::Must), _) => Some(&MUST),
            (Some(Modal::Want), _) => Some(&WANT),
            (Some(Modal::Right), _) => Some(&HAVE),
            (None, Tense::Future) => Some(&GO),
            (None, _) => None,
        };
        let compound = match (governor, self.tense, verb.past) {
            (None, Tense::Past, Past::Compound(auxiliary)) => Some(auxiliary),
            _ => None,
        };
        if governor.is_none() {
            self.clitic(out);
        }
        match (governor, compound, self.tense, verb.past) {
            (Some(governor), ..) => out.push(present(governor, who)),
            (_, Some(Auxiliary::Avoir), ..) => out.push(present(&HAVE, who)),
            (_, Some(Auxiliary::Etre), ..) => out.push(present(&BE, who)),
            (_, _, Tense::Past, Past::Imperfect(stem)) => out.push(imperfect(stem, who)),
            _ => out.push(present(verb, who)),
        }
        match self.polarity {
            Polarity::Yes => {}
            Polarity::Not => out.push("pas"),
            Polarity::Never => out.push("jamais"),
        }
        if let Some((_, frequency)) = self.frequency {
            out.push(*frequency);
        }
        let early = self.manner.filter(|manner| manner.place == MannerPlace::BeforeParticiple);
        if let Some(manner) = early {
            out.push(manner.french);
        }
        if governor.is_some() {
            if self.modal == Some(Modal::Right) {
                ["le", "droit", "de"].into_iter().for_each(|word| out.push(word));
            }
            self.clitic(out);
            out.push(verb.infinitive);
        } else if let Some(auxiliary) = compound {
            out.push(self.participle(auxiliary, who));
        }
        self.french_complements(self.mood(order), who, out);
    }

    /// The pronoun before the verb.
    fn clitic(&self, out: &mut French) {
        let Predicate::Do { object, recipient, .. } = &self.predicate else { return };
        if let Object::Pronoun(pronoun) = object {
            out.push(pronoun.french_object());
        }
        if let Recipient::Pronoun(pronoun) = recipient {
            out.push(pronoun.french_recipient());
        }
    }

    /// With être it agrees with the subject, with avoir with an object that stands before it.
    fn participle(&self, auxiliary: Auxiliary, who: Agreement) -> String {
        let verb = self.verb();
        let object = match &self.predicate {
            Predicate::Do { object: Object::Pronoun(pronoun), .. } => {
                Some((pronoun.agreement().gender, pronoun.agreement().number))
            }
            Predicate::Do { object: Object::Fronted(gender, number), .. } => Some((*gender, *number)),
            _ => None,
        };
        match (auxiliary, object) {
            (Auxiliary::Etre, _) => participle(verb.participle, who.gender, who.number),
            (Auxiliary::Avoir, Some((gender, number))) => participle(verb.participle, gender, number),
            (Auxiliary::Avoir, None) => verb.participle.to_string(),
        }
    }

    fn french_complements(&self, mood: Mood, who: Agreement, out: &mut French) {
        match &self.predicate {
            Predicate::Do { object, recipient, .. } => {
                if let Object::Phrase(phrase) = object {
                    phrase.french(mood, out);
                }
                match recipient {
                    Recipient::Name(name) => {
                        out.push("à");
                        out.push(name.text);
                    }
                    Recipient::Phrase(phrase) => {
                        out.push("à");
                        phrase.french(Mood::Affirmative, out);
                    }
                    Recipient::None | Recipient::Pronoun(_) => {}
                }
            }
            Predicate::Quality(adjective, degree) => {
                match degree {
                    Degree::Plain => {}
                    Degree::Very => out.push("très"),
                    Degree::Too => out.push("trop"),
                }
                out.push(agreed(adjective, who.gender, who.number, None));
            }
            Predicate::Profession(noun) => out.push(noun.french[0]),
            Predicate::There => {}
        }
        if let Some(manner) = self.manner.filter(|manner| manner.place == MannerPlace::AfterParticiple) {
            out.push(manner.french);
        }
        if let Some(place) = &self.place {
            place.french(out);
        }
        if let Some(time) = self.time {
            out.push(time.french);
        }
    }
}

/// The English "to be".
pub(super) fn be(who: Agreement, tense: Tense) -> &'static str {
    match (tense, who.number, who.person) {
        (Tense::Past, Number::Singular, Person::First | Person::Third) => "was",
        (Tense::Past, ..) => "were",
        (_, Number::Singular, Person::First) => "am",
        (_, Number::Singular, Person::Third) => "is",
        _ => "are",
    }
}

/// The French present.
pub(super) fn present(verb: &Verb, who: Agreement) -> String {
    match &verb.present {
        Present::Forms(forms) => forms[who.column()].to_string(),
        Present::Er(stem) => format!("{stem}{}", ["e", "es", "e", "ons", "ent"][who.column()]),
    }
}

/// The French imperfect.
pub(super) fn imperfect(stem: &str, who: Agreement) -> String {
    format!("{stem}{}", ["ais", "ais", "ait", "ions", "aient"][who.column()])
}
