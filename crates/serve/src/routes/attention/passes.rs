//! Passes through a model that bound the number of attention weights in memory at once.

use regard_nn::{Site, Wanted};

use crate::error::ApiError;

/// Largest number of weights in memory at once, all layers and heads together.
const MOST_WEIGHTS: usize = 50_000_000;

/// Largest number of tokens of an input: the map of one head has as many weights as may be in memory.
pub const MOST_TOKENS: usize = 7_071;

/// Returns an error if all maps of some layers, with their numbers of heads, are too many for one pass.
pub fn check(layers: &[(Site, usize)], tokens: usize) -> Result<(), ApiError> {
    let heads: usize = layers.iter().map(|(_, heads)| heads).sum();
    let weights = heads.saturating_mul(tokens).saturating_mul(tokens);
    if weights <= MOST_WEIGHTS {
        return Ok(());
    }
    let said =
        format!("expected at most {MOST_WEIGHTS} weights, got {weights}; ask for fewer layers or a shorter input");
    Err(ApiError::too_large("input", said))
}

/// Divides layers, with their numbers of heads, among passes with few enough weights each.
pub fn of(layers: &[(Site, usize)], tokens: usize) -> Result<Vec<Wanted>, ApiError> {
    if tokens > MOST_TOKENS {
        let said = format!("expected at most {MOST_TOKENS} tokens, got {tokens}");
        return Err(ApiError::too_large("input", said));
    }
    let most = MOST_WEIGHTS / (tokens * tokens).max(1);
    let (mut passes, mut together, mut count) = (Vec::new(), Vec::new(), 0);
    let whole = |layers: Vec<Site>| Wanted { layers: Some(layers), ..Wanted::default() };
    for &(site, heads) in layers {
        if count + heads > most && !together.is_empty() {
            passes.push(whole(std::mem::take(&mut together)));
            count = 0;
        }
        if heads > most {
            let parts = (0..heads).step_by(most).map(|first| (first..heads.min(first + most)).collect());
            passes.extend(parts.map(|heads| Wanted { heads: Some(heads), ..whole(vec![site]) }));
        } else {
            together.push(site);
            count += heads;
        }
    }
    if !together.is_empty() || passes.is_empty() {
        passes.push(whole(together));
    }
    Ok(passes)
}

#[cfg(test)]
mod tests {
    use regard_nn::AttentionKind;

    use super::*;

    #[test]
    fn long_inputs_take_more_passes() {
        let layers: Vec<(Site, usize)> =
            (0..3).map(|layer| (Site { side: None, layer, kind: AttentionKind::SelfAttention }, 12)).collect();
        let counts = |tokens| {
            let passes = of(&layers, tokens).unwrap();
            let heads = |wanted: &Wanted| {
                let layers = wanted.layers.as_ref().map_or(0, Vec::len);
                layers * wanted.heads.as_ref().map_or(12, Vec::len)
            };
            passes.iter().map(heads).collect::<Vec<_>>()
        };
        assert_eq!(counts(10), [36]);
        assert_eq!(counts(1_200), [24, 12]);
        assert_eq!(counts(2_000), [12, 12, 12]);
        assert_eq!(counts(2_500), [8, 4, 8, 4, 8, 4]);
        assert_eq!(counts(7_000), [1; 36]);
        assert!(of(&layers, 8_000).is_err() && of(&layers, usize::MAX).is_err());
        assert_eq!(of(&[], 10).unwrap(), [Wanted { layers: Some(vec![]), ..Wanted::default() }]);
        assert!(check(&layers, 1_000).is_ok() && check(&layers, 2_000).is_err());
    }
}
