//! Axes: their scale and ticks, and the place of a value on them.

use crate::number::{fixed, number};

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Name of the measured quantity, with its unit.
    pub name: String,
    /// Spacing of the values.
    pub scale: AxisScale,
    /// Values that the axis must include besides the data, such as `0` for a quantity or `0` and `1` for a share.
    pub including: Vec<f64>,
}

/// Spacing of the values on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisScale {
    /// Values are spaced evenly.
    Linear,
    /// Values are spaced by their logarithm. Points that are not positive are left out.
    Log,
}

impl Axis {
    /// Creates an evenly spaced axis.
    pub fn linear(name: impl Into<String>) -> Self {
        Self { name: name.into(), scale: AxisScale::Linear, including: Vec::new() }
    }

    /// Creates a logarithmic axis.
    pub fn log(name: impl Into<String>) -> Self {
        Self { scale: AxisScale::Log, ..Self::linear(name) }
    }

    /// Returns whether a value can be drawn.
    pub(crate) fn has_place(&self, value: f64) -> bool {
        transform(self.scale, value).is_some()
    }

    /// Adds a value that the axis must include.
    pub fn including(mut self, value: f64) -> Self {
        self.including.push(value);
        self
    }
}

/// Range and ticks of an axis, chosen for its data.
#[derive(Debug, Clone)]
pub(crate) struct Ruler {
    scale: AxisScale,
    low: f64,
    high: f64,
    pub ticks: Vec<Tick>,
}

#[derive(Debug, Clone)]
pub(crate) struct Tick {
    /// Position along the axis, from 0 to 1.
    pub place: f64,
    pub label: String,
}

/// Limit that larger values are clamped to, because their differences could overflow.
const LARGEST: f64 = 1e300;

impl Ruler {
    /// Chooses a range that includes all values that can be drawn, with about `wanted` ticks.
    pub(crate) fn new(axis: &Axis, values: impl Iterator<Item = f64>, wanted: usize) -> Self {
        let scale = axis.scale;
        let all = values.chain(axis.including.iter().copied()).filter_map(|v| transform(scale, v));
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = match scale {
            _ if low > high => (0.0, 1.0),
            AxisScale::Linear if high - low <= 1e-9 * high.abs().max(low.abs()) => {
                let margin = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
                (low - margin, high + margin)
            }
            AxisScale::Log if high - low < 0.05 => (low - 0.5, high + 0.5),
            _ => {
                let margin = 0.04 * (high - low);
                // No margin beyond a value of `including`, nor beyond zero on a linear axis.
                let is_end = |end: f64| {
                    (scale == AxisScale::Linear && end == 0.0)
                        || axis.including.iter().any(|&v| transform(scale, v) == Some(end))
                };
                let lower = if is_end(low) { low } else { low - margin };
                (lower, if is_end(high) { high } else { high + margin })
            }
        };
        let mut ruler = Self { scale, low, high, ticks: Vec::new() };
        ruler.ticks = match scale {
            AxisScale::Linear => ruler.linear_ticks(wanted),
            AxisScale::Log => ruler.log_ticks(wanted),
        };
        ruler
    }

    /// Returns the position of a value, from 0 to 1. `None` if it is not finite, or not positive on a logarithmic axis.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let value = transform(self.scale, value)?;
        Some(((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0))
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<Tick> {
        let step = even_step((self.high - self.low) / wanted.max(1) as f64);
        let largest = self.low.abs().max(self.high.abs());
        let first = (self.low / step - 1e-9).ceil();
        let count = (((self.high / step + 1e-9).floor() - first) as usize).min(4 * wanted.max(1));
        let decimals = (-step.log10() + 1e-9).ceil().max(0.0) as usize;
        let is_plain = largest < 1e5 && decimals <= 4;
        let digits = ((largest / step).log10().ceil() as usize + 1).clamp(1, 10);
        let values = (0..=count).map(|index| (first + index as f64) * step);
        let label = |value| if is_plain { fixed(value, decimals) } else { number(value, digits) };
        values.filter_map(|value| Some(Tick { place: self.place(value)?, label: label(value) })).collect()
    }

    fn log_ticks(&self, wanted: usize) -> Vec<Tick> {
        let decades = self.high - self.low;
        // Ticks at whole decades, or at 1, 2 and 5 times them; within a fraction of a decade, at even steps.
        let multiples: &[f64] = if decades > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let every = (decades / wanted.max(1) as f64).ceil().max(1.0);
        let mut ticks = Vec::new();
        let mut decade = (self.low / every).floor() * every;
        while decade <= self.high {
            for multiple in multiples {
                let value = decade + multiple.log10();
                if (self.low - 1e-9..=self.high + 1e-9).contains(&value) {
                    let place = ((value - self.low) / decades).clamp(0.0, 1.0);
                    ticks.push(Tick { place, label: power_label(*multiple, decade) });
                }
            }
            decade += every;
        }
        if ticks.len() >= 2 {
            return ticks;
        }
        let (low, high) = (10f64.powf(self.low), 10f64.powf(self.high));
        let even = Self { scale: AxisScale::Linear, low, high, ticks: Vec::new() };
        let values = even.linear_ticks(wanted.min(4)).into_iter().map(|t| (low + t.place * (high - low), t.label));
        values.filter_map(|(value, label)| Some(Tick { place: self.place(value)?, label })).collect()
    }
}

/// Rounds a step up to 1, 2 or 5 times a power of ten.
pub(crate) fn even_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1e-300).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|m| m * power).find(|&s| s >= step * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// Returns a value in the units of the scale (its logarithm on a logarithmic one). `None` if it cannot be drawn.
fn transform(scale: AxisScale, value: f64) -> Option<f64> {
    match scale {
        _ if !value.is_finite() => None,
        AxisScale::Linear => Some(value.clamp(-LARGEST, LARGEST)),
        AxisScale::Log => (value > 0.0).then(|| value.clamp(1.0 / LARGEST, LARGEST).log10()),
    }
}

fn power_label(multiple: f64, decade: f64) -> String {
    number(multiple * 10f64.powf(decade), 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        Ruler::new(axis, values.iter().copied(), 5).ticks.into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn ticks_are_even() {
        assert_eq!(
            labels(&Axis::linear("").including(0.0).including(1.0), &[0.5]),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(labels(&Axis::log(""), &[1.0, 1e4]), ["1", "10", "100", "1000", "10000"]);
        assert_eq!(labels(&Axis::log(""), &[1.0, 60.0]), ["1", "2", "5", "10", "20", "50"]);
    }

    #[test]
    fn unusual_data_have_a_range() {
        let nothing: &[f64] = &[];
        let cases = [nothing, &[f64::NAN], &[3.0], &[0.0, 0.0], &[-1e308, 1e308], &[1e15, 1e15 + 0.1], &[1e-320, 1.0]];
        for values in cases {
            for axis in [Axis::linear(""), Axis::log("")] {
                let ruler = Ruler::new(&axis, values.iter().copied(), 5);
                assert!(ruler.high > ruler.low && (ruler.high - ruler.low).is_finite(), "{values:?}");
                assert!(!ruler.ticks.is_empty() && ruler.ticks.len() < 30, "{values:?} {:?}", ruler.ticks);
                assert!(ruler.ticks.iter().all(|t| (0.0..=1.0).contains(&t.place)));
            }
        }
    }

    #[test]
    fn a_log_axis_has_no_place_for_zero() {
        let ruler = Ruler::new(&Axis::log(""), [0.0, -1.0, 1.0, 10.0].into_iter(), 5);
        assert_eq!(ruler.place(0.0), None);
        assert_eq!(ruler.place(-1.0), None);
        assert!(ruler.place(10.0) > ruler.place(1.0));
    }
}
