//! Short stories for language models and word vectors. People are named and then called by a pronoun, and groups of words
//! occur in the same contexts, so that neighbours and analogies can be learnt.

use super::draw::Draw;
use super::parts::hash;
use super::story_words::STORIES;

/// Length of the text in bytes.
const BYTES: usize = 300_000;

/// Writes about 300 kB of paragraphs, one per line, with an empty line between them.
pub fn text(seed: u64) -> String {
    let mut draw = Draw::new(seed ^ hash("text"));
    let mut text = String::with_capacity(BYTES + 1024);
    while text.len() < BYTES {
        let paragraph = match draw.below(10) {
            0..=2 => people(&mut draw),
            3..=4 => countries(&mut draw),
            5..=6 => actions(&mut draw),
            7 => animals(&mut draw),
            8 => colours(&mut draw),
            _ => a_day(&mut draw),
        };
        text.push_str(&paragraph);
        text.push_str("\n\n");
    }
    text.pop();
    text
}

/// Analogy questions for word vectors, "a is to b as c is to d": genders, capitals and tenses.
pub fn analogies() -> Vec<[&'static str; 4]> {
    let genders: Vec<[&str; 2]> = STORIES.people.iter().map(|(pair, _)| *pair).collect();
    let capitals: Vec<[&str; 2]> = STORIES.countries.iter().map(|country| [country[1], country[0]]).collect();
    let tenses: Vec<[&str; 2]> = STORIES.actions.iter().map(|(forms, _)| [forms[0], forms[2]]).collect();
    let mut questions = Vec::new();
    for pairs in [genders, capitals, tenses] {
        for (index, [a, b]) in pairs.iter().enumerate() {
            let others = pairs.iter().enumerate().filter(|(other, _)| *other != index);
            questions.extend(others.map(|(_, [c, d])| [*a, *b, *c, *d]));
        }
    }
    questions
}

/// Named groups of words that belong together, for a picture of word vectors.
pub fn related() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("men", STORIES.people.iter().map(|(pair, _)| pair[0]).collect()),
        ("women", STORIES.people.iter().map(|(pair, _)| pair[1]).collect()),
        ("countries", STORIES.countries.iter().map(|country| country[0]).collect()),
        ("capitals", STORIES.countries.iter().map(|country| country[1]).collect()),
        ("verbs", STORIES.actions.iter().map(|(forms, _)| forms[0]).collect()),
        ("past", STORIES.actions.iter().map(|(forms, _)| forms[2]).collect()),
        ("animals", STORIES.animals.iter().map(|animal| animal[0]).collect()),
        ("colours", STORIES.colours.to_vec()),
        ("days", STORIES.days.to_vec()),
    ]
}

/// The pronouns for a man or a woman.
struct Pronouns {
    he: &'static str,
    upper: &'static str,
    him: &'static str,
    his: &'static str,
}

const HE: Pronouns = Pronouns { he: "he", upper: "He", him: "him", his: "his" };
const SHE: Pronouns = Pronouns { he: "she", upper: "She", him: "her", his: "her" };

fn person(draw: &mut Draw) -> (&'static str, &'static Pronouns) {
    if draw.chance(50) { (*draw.pick(&STORIES.men), &HE) } else { (*draw.pick(&STORIES.women), &SHE) }
}

fn article(next: &str) -> &'static str {
    if next.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn another<'a>(draw: &mut Draw, items: &'a [&'static str], than: &str) -> &'a str {
    loop {
        let item = draw.pick(items);
        if *item != than {
            return item;
        }
    }
}

fn people(draw: &mut Draw) -> String {
    let (pair, deeds) = draw.pick(&STORIES.people);
    let side = draw.below(2);
    let (who, other) = (pair[side], pair[1 - side]);
    let Pronouns { he, upper, him, his } = [HE, SHE][side];
    let (friend, _) = person(draw);
    let first = draw.below(deeds.len());
    let (one, two) = (deeds[first], deeds[(first + 1 + draw.below(deeds.len() - 1)) % deeds.len()]);
    let day = draw.pick(&STORIES.days);
    let age = *draw.pick(&["old", "young", "kind", "clever"]);
    let mut story = match draw.below(3) {
        0 => format!("There was once {} {age} {who}. {upper} {one}. ", article(age)),
        1 => format!("The {who} {one}, and {he} {two}. "),
        _ => format!("On {day} the {age} {who} {one}. "),
    };
    story += &match draw.below(4) {
        0 => format!("{friend} saw the {who} and greeted {him}. "),
        1 => format!("The {who} said that {he} {two}. "),
        2 => format!("The {who} put on {his} coat, for {he} {two}. "),
        _ => format!("Everyone knew the {who} because {he} {two}. "),
    };
    story += &match draw.below(4) {
        0 => format!("The {other} {two} too."),
        1 => format!("The {who} looked at {his} hands and smiled at {him}self."),
        2 => format!("{friend} asked the {who} where {he} lived, and {he} told {friend} about {his} life."),
        _ => format!("In the evening the {who} and the {other} {two}."),
    };
    story
}

fn countries(draw: &mut Draw) -> String {
    let first = draw.below(STORIES.countries.len());
    let [country, capital, language, food] = STORIES.countries[first];
    let [abroad, far, foreign, _] =
        STORIES.countries[(first + 1 + draw.below(STORIES.countries.len() - 1)) % STORIES.countries.len()];
    let (name, Pronouns { he, upper, his, .. }) = person(draw);
    let month = *draw.pick(&["spring", "summer", "autumn", "winter"]);
    let start = match draw.below(3) {
        0 => format!("{capital} is the capital of {country}. "),
        1 => format!("The capital of {country} is {capital}. "),
        _ => format!("{name} lives in {capital}, the capital of {country}. "),
    };
    let middle = match draw.below(3) {
        0 => format!("In {country} people speak {language} and eat {food}. "),
        1 => format!("In the streets of {capital} one hears {language} and smells {food}. "),
        _ => format!("People in {country} speak {language}, and they are proud of {capital}. "),
    };
    let end = match draw.below(4) {
        0 => format!(
            "In {month} {name} took the train from {capital} to {far}. {upper} did not speak {foreign}, but {he} liked {abroad}."
        ),
        1 => format!(
            "{name} left {country} and went to {abroad} with {his} friends. The hotel was in the city of {far}."
        ),
        2 => {
            format!("The city of {capital} is the largest in the country of {country}. {name} spent the {month} there.")
        }
        _ => format!(
            "Last {month} {name} flew to the city of {capital}. {upper} wrote home from {country} that {he} was happy."
        ),
    };
    start + &middle + &end
}

fn actions(draw: &mut Draw) -> String {
    let ([base, third, past], ways) = draw.pick(&STORIES.actions);
    let (name, Pronouns { he, upper, .. }) = person(draw);
    let day = draw.pick(&STORIES.days);
    let mut way = || *draw.pick(ways);
    let (one, two, three) = (way(), way(), way());
    let ([_, _, other], elsewhere) = draw.pick(&STORIES.actions);
    let elsewhere = draw.pick(elsewhere);
    let start = match draw.below(3) {
        0 => format!("Every {day} {name} {third} {one}. {upper} likes to {base} {two}. "),
        1 => format!("{name} wants to {base} {one}. {upper} can {base} {two} well. "),
        _ => format!("Tomorrow {name} will {base} {one}. {upper} must {base} {two} every day. "),
    };
    let end = match draw.below(3) {
        0 => format!("Yesterday {he} {past} {three}, and then {he} {other} {elsewhere}."),
        1 => format!("Last {day} {he} {past} {three}. Long ago {he} {past} {one} with {}.", person(draw).0),
        _ => format!("{name} has {past} {three} before. Yesterday {he} {past} {two} until the evening."),
    };
    start + &end
}

fn animals(draw: &mut Draw) -> String {
    let first = draw.below(STORIES.animals.len());
    let [animal, cry, food, home] = STORIES.animals[first];
    let other = STORIES.animals[(first + 1 + draw.below(STORIES.animals.len() - 1)) % STORIES.animals.len()][0];
    let (name, Pronouns { upper, his, .. }) = person(draw);
    let colour = *draw.pick(&STORIES.colours);
    let an = if article(animal) == "an" { "An" } else { "A" };
    match draw.below(3) {
        0 => format!(
            "{name} has a {colour} {animal}. The {animal} sleeps in its {home} and eats {food}. \
             When the {animal} is hungry, it {cry}. {upper} feeds {his} {animal} every morning."
        ),
        1 => format!(
            "The farmer heard the {animal}. {an} {animal} {cry} when it wants {food}. \
             The {animal} ran to the {home}, away from the {other}."
        ),
        _ => format!(
            "A {colour} {animal} lives in the {home} near the farm. It {cry} at night. \
             {name} gave the animal some {food}, and the {animal} was happy."
        ),
    }
}

fn colours(draw: &mut Draw) -> String {
    let colour = *draw.pick(&STORIES.colours);
    let next = another(draw, &STORIES.colours, colour);
    let thing = *draw.pick(&STORIES.painted);
    let second = another(draw, &STORIES.painted, thing);
    let (name, Pronouns { upper, his, he, .. }) = person(draw);
    match draw.below(3) {
        0 => format!(
            "{name} bought a {colour} {thing}. {upper} likes the colour {colour} more than the colour {next}. {upper} has a {next} {second} too."
        ),
        1 => format!(
            "The {thing} was {colour}, and the {second} was {next}. {name} painted {his} {second} in bright {colour}. Now the {second} is {colour} as well."
        ),
        _ => format!(
            "{name} lost {his} {colour} {thing}. {upper} looked for it and found a {next} one. In the end {he} kept the {next} {thing}."
        ),
    }
}

fn a_day(draw: &mut Draw) -> String {
    let day = *draw.pick(&STORIES.days);
    let next = another(draw, &STORIES.days, day);
    let place = *draw.pick(&STORIES.places);
    let food = *draw.pick(&STORIES.food);
    let more = another(draw, &STORIES.food, food);
    let drink = *draw.pick(&STORIES.drinks);
    let (name, Pronouns { upper, he, him, .. }) = person(draw);
    let (friend, theirs) = person(draw);
    let friend = if friend == name { "the neighbour" } else { friend };
    let they = theirs.he;
    let met = match draw.below(2) {
        0 => format!("There {he} met {friend}, and they ate {food} and drank {drink}. "),
        _ => format!("{upper} bought some {food} and some {more} there, and {friend} helped {him}. "),
    };
    let end = match draw.below(3) {
        0 => format!("For breakfast {he} has {more} with a cup of {drink}."),
        1 => format!("On {next} {he} will stay at home and eat {more}."),
        _ => {
            if friend == "the neighbour" {
                format!("On {next} the neighbour came and brought {him} a glass of {drink}.")
            } else {
                format!("On {next} {friend} came back, and {they} brought {him} a glass of {drink}.")
            }
        }
    };
    format!("On {day} {name} went to the {place}. {met}{end}")
}
