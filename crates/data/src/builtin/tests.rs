use super::*;
#[test]
#[ignore]
fn show() {
    let p = english_french(Sizes { train: 400, dev: 0, test: 60 }, 1);
    for s in p.train.iter() {
        println!("{}\t{}", s.text(), s.french);
    }
}
#[test]
#[ignore]
fn dump() {
    let p = english_french(Sizes::default(), 1);
    for (n, part) in [("train", &p.train), ("dev", &p.dev), ("test", &p.test)] {
        let t: String = part.iter().map(|s| format!("{}\t{}\n", s.text(), s.french)).collect();
        std::fs::write(format!("/work/scratch/p4/h2_{n}.tsv"), t).unwrap();
    }
}
