//! Classes of nouns, one bit each. The word lists name them in small letters; `words/nouns.txt` explains them.

macro_rules! classes {
    ($($name:ident)*) => {
        /// Every class with its name.
        pub(in crate::builtin) const ALL: &[(&str, u64)] = &[$((stringify!($name), $name)),*];
        classes!(@ 0; $($name)*);
    };
    (@ $bit:expr; $name:ident $($rest:ident)*) => {
        pub(in crate::builtin) const $name: u64 = 1 << ($bit);
        classes!(@ $bit + 1; $($rest)*);
    };
    (@ $bit:expr;) => {};
}

classes! {
    PERSON PROFESSION ANIMAL BIRD INSECT FOOD DRINK SERVED_HOT GOODS PORTABLE TEXT WRITTEN TOLD SUNG SHOWN CLOTHES WORN PAIR
    CONTAINER OPENED FIRE BEAM VEHICLE PARKED BOOKED PLANT GARDEN PLACE GOAL VISITED LEFT CLEANED EMPTIED PAINTED TRAINED
    AWAITED BROKEN HEAVY SURFACE SHELTER LANDMARK SOUNDING WRONG COLOURED NOBODYS
}
