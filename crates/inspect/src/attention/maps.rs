//! Views from the attention maps that a forward pass captured.

use regard_nn::AttentionMap;

use crate::attention::{AttentionView, HeadMap, MapGroup};
use crate::error::InspectError;

impl AttentionView {
    /// Creates a view of the maps of a [`Capture`](regard_nn::Capture), in its order of layers.
    ///
    /// `describe` returns the name and the tokens of a map's layer as a [`MapGroup`] without heads, or `None` to leave a map out.
    /// Maps of the same layer and the same tokens form one group. Rows of cached decoding, which grow with the steps, are padded
    /// with zeros; queries that were not captured are zero, and a row captured twice is that of the later pass. Weights beyond
    /// the tokens are the padding of a batch and left out, with an error if one of them is not zero.
    pub fn from_maps(
        title: impl Into<String>,
        maps: &[AttentionMap],
        mut describe: impl FnMut(&AttentionMap) -> Option<MapGroup>,
    ) -> Result<Self, InspectError> {
        let mut found: Vec<(usize, MapGroup)> = Vec::new();
        for map in maps {
            let Some(group) = describe(map) else { continue };
            let is_same = |known: &MapGroup| {
                (&known.name, known.site, &known.queries, &known.keys)
                    == (&group.name, group.site, &group.queries, &group.keys)
            };
            let place = found.iter().position(|(sequence, known)| *sequence == map.sequence && is_same(known));
            let place = place.unwrap_or_else(|| {
                found.push((map.sequence, group));
                found.len() - 1
            });
            add(&mut found[place].1, map)?;
        }
        Ok(Self { title: title.into(), groups: found.into_iter().map(|(_, group)| group).collect() })
    }
}

/// Copies the rows of a map into the group.
fn add(group: &mut MapGroup, map: &AttentionMap) -> Result<(), InspectError> {
    let (queries, keys) = (group.queries.len(), group.keys.len());
    let place = group.heads.iter().position(|head| head.head == map.head).unwrap_or_else(|| {
        group.heads.push(HeadMap { head: map.head, rows: vec![vec![0.0; keys]; queries] });
        group.heads.len() - 1
    });
    for (index, weights) in map.rows.iter().enumerate() {
        let Some(row) = group.heads[place].rows.get_mut(map.first_row.saturating_add(index)) else { continue };
        row.fill(0.0);
        for (column, &weight) in weights.iter().enumerate() {
            let key = match &map.keys {
                Some(edges) => edges.get(index).and_then(|edges| edges.get(column)).copied().unwrap_or(usize::MAX),
                None => column,
            };
            match row.get_mut(key) {
                Some(cell) => *cell = weight,
                None if weight == 0.0 => {}
                None => {
                    return Err(InspectError::Keys {
                        layer: map.site.head(map.head),
                        expected: keys,
                        got: weights.len(),
                    });
                }
            }
        }
    }
    Ok(())
}
