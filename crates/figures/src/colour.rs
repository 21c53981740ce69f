//! Colour maps for values, and a palette for named series.

/// Mapping from the values of a heat map to colours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColourScale {
    /// Colours from the low end to the high end.
    pub map: ColourMap,
    /// Values of the first and the last colour.
    pub range: ValueRange,
}

/// A sequence of colours. The lightness changes evenly from one end to the other, or from white to both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColourMap {
    /// White to dark blue, for weights: zero looks empty.
    Blues,
    /// Dark violet through green to yellow, for quantities without a natural zero.
    Viridis,
    /// Blue through white to red, for signed values: zero is white.
    BlueRed,
}

/// Values at the ends of a colour scale. Values beyond an end have the colour of that end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRange {
    /// From the smallest to the largest finite value.
    Data,
    /// From zero to the largest finite value, or from the smallest one if that is negative.
    FromZero,
    /// From `low` to `high`. Treated as [`ValueRange::Data`] unless both are finite and `low < high`.
    Fixed {
        /// Value of the first colour.
        low: f32,
        /// Value of the last colour.
        high: f32,
    },
}

impl ColourScale {
    /// Creates a scale from white to dark blue.
    pub fn sequential(range: ValueRange) -> Self {
        Self { map: ColourMap::Blues, range }
    }

    /// Creates a scale from violet to yellow.
    pub fn viridis(range: ValueRange) -> Self {
        Self { map: ColourMap::Viridis, range }
    }

    /// Creates a scale from blue to red with white at zero. The range is widened to be symmetric around zero.
    pub fn diverging(range: ValueRange) -> Self {
        Self { map: ColourMap::BlueRed, range }
    }

    /// Returns the low and the high end of the scale for these values; both are finite, and low is less than high.
    pub(crate) fn ends(self, values: &[f32]) -> (f64, f64) {
        let finite = values.iter().filter(|v| v.is_finite()).map(|&v| f64::from(v));
        let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)));
        let (least, most) = if least > most { (0.0, 1.0) } else { (least, most) };
        let (low, high) = match self.range {
            ValueRange::Fixed { low, high } if low.is_finite() && high.is_finite() && low < high => {
                (f64::from(low), f64::from(high))
            }
            ValueRange::FromZero => (least.min(0.0), most.max(0.0)),
            _ => (least, most),
        };
        if self.map == ColourMap::BlueRed {
            let side = low.abs().max(high.abs());
            let side = if side > 0.0 { side } else { 1.0 };
            return (-side, side);
        }
        if low < high {
            return (low, high);
        }
        // All values are equal. Zero keeps the first colour; any other value gets the middle of a range around it.
        if low == 0.0 { (0.0, 1.0) } else { (low - low.abs() / 2.0, low + low.abs() / 2.0) }
    }
}

/// A colour as its red, green and blue parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    pub(crate) const INK: Self = Self(0x22, 0x22, 0x22);
    pub(crate) const QUIET: Self = Self(0x55, 0x55, 0x55);
    pub(crate) const RULE: Self = Self(0x88, 0x88, 0x88);
    pub(crate) const GRID: Self = Self(0xe4, 0xe4, 0xe4);
    pub(crate) const WHITE: Self = Self(0xff, 0xff, 0xff);

    /// Returns the colour in the notation of SVG and CSS, such as `#0072b2`.
    pub(crate) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// Returns the colour between this one and `other`: this one for a share of 0, the other for 1.
    pub(crate) fn towards(self, other: Self, share: f64) -> Self {
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    /// Returns the text colour, dark or white, that is easier to read on this colour.
    pub(crate) fn ink_upon(self) -> Self {
        let lightness = 0.299 * f64::from(self.0) + 0.587 * f64::from(self.1) + 0.114 * f64::from(self.2);
        if lightness > 140.0 { Self::INK } else { Self::WHITE }
    }
}

impl ColourMap {
    /// Returns the evenly spaced colours that the map interpolates linearly.
    pub fn stops(self) -> &'static [Colour] {
        match self {
            Self::Blues => &BLUES,
            Self::Viridis => &VIRIDIS,
            Self::BlueRed => &BLUE_RED,
        }
    }

    /// Returns the colour at `position`, which is clamped to 0 … 1.
    pub(crate) fn at(self, position: f64) -> Colour {
        let stops = self.stops();
        let position = position.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
        let index = (position as usize).min(stops.len() - 2);
        let part = position - index as f64;
        stops[index].towards(stops[index + 1], part)
    }

    /// Returns the id of the map's gradient in an SVG.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Blues => "regard-blues",
            Self::Viridis => "regard-viridis",
            Self::BlueRed => "regard-blue-red",
        }
    }
}

/// Returns the colour of the `index`-th series, from the palette of Okabe and Ito, which suits every kind of colour vision. Its
/// yellow, weak on white, comes last.
pub(crate) fn palette(index: usize) -> Colour {
    const PALETTE: [Colour; 8] = [
        Colour(0x00, 0x72, 0xb2),
        Colour(0xd5, 0x5e, 0x00),
        Colour(0x00, 0x9e, 0x73),
        Colour(0xcc, 0x79, 0xa7),
        Colour(0xe6, 0x9f, 0x00),
        Colour(0x56, 0xb4, 0xe9),
        Colour(0x00, 0x00, 0x00),
        Colour(0xc9, 0xbe, 0x1f),
    ];
    PALETTE[index % PALETTE.len()]
}

const BLUES: [Colour; 9] = [
    Colour(0xff, 0xff, 0xff),
    Colour(0xe1, 0xec, 0xf7),
    Colour(0xc3, 0xd9, 0xee),
    Colour(0x9c, 0xc3, 0xe2),
    Colour(0x6e, 0xa8, 0xd3),
    Colour(0x44, 0x89, 0xc1),
    Colour(0x22, 0x68, 0xa8),
    Colour(0x0d, 0x47, 0x88),
    Colour(0x08, 0x28, 0x5c),
];

const VIRIDIS: [Colour; 9] = [
    Colour(0x44, 0x01, 0x54),
    Colour(0x47, 0x2d, 0x7b),
    Colour(0x3b, 0x52, 0x8b),
    Colour(0x2c, 0x72, 0x8e),
    Colour(0x21, 0x91, 0x8c),
    Colour(0x28, 0xae, 0x80),
    Colour(0x5e, 0xc9, 0x62),
    Colour(0xad, 0xdc, 0x30),
    Colour(0xfd, 0xe7, 0x25),
];

const BLUE_RED: [Colour; 9] = [
    Colour(0x1f, 0x4e, 0x9c),
    Colour(0x4a, 0x7f, 0xc1),
    Colour(0x8f, 0xb4, 0xdc),
    Colour(0xcf, 0xdf, 0xf0),
    Colour(0xff, 0xff, 0xff),
    Colour(0xf7, 0xd5, 0xcc),
    Colour(0xe8, 0x9c, 0x8c),
    Colour(0xcf, 0x5f, 0x55),
    Colour(0xa1, 0x1d, 0x2e),
];
