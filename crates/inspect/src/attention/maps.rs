//! From what a pass has captured.

use regard_nn::AttentionMap;

use crate::attention::{AttentionView, HeadMap, MapGroup};
use crate::error::InspectError;

impl AttentionView {
    /// The maps of a [`Capture`](regard_nn::Capture), in its order of layers.
    ///
    /// `describe` gives the name and the tokens of a map's layer as a [`MapGroup`] without heads; maps of the same layer and
    /// the same tokens stand together, and `None` leaves a map out. Rows of cached decoding, which grow with its steps, are filled up with zeros, and so
    /// are queries that were not captured. What lies beyond the tokens is the padding of a batch and left out: an error
    /// if a query looks there. Rows that were captured twice are those of the later pass.
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

/// Puts the rows of a map in their places.
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
