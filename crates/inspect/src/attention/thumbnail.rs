//! Small pictures of maps.

use crate::attention::{HeadMap, MapGroup};

impl HeadMap {
    /// Returns the map with at most `side` rows and columns. Each cell is the largest of the weights that it stands for, so that a
    /// narrow line stays visible; the cells differ in size by one weight at most.
    pub fn thumbnail(&self, group: &MapGroup, side: usize) -> Vec<Vec<f32>> {
        let (queries, keys) = (group.queries.len(), group.keys.len());
        let (height, width) = (queries.min(side), keys.min(side));
        let mut cells = vec![vec![0.0f32; width]; height];
        for (query, row) in self.rows.iter().enumerate().take(queries) {
            let cells = &mut cells[query * height / queries];
            for (key, &weight) in row.iter().enumerate().take(keys) {
                let cell = &mut cells[key * width / keys];
                // NaN must not vanish.
                if weight > *cell || weight.is_nan() {
                    *cell = weight;
                }
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_the_largest_of_its_weights() {
        let tokens: Vec<String> = (0..70).map(|token| token.to_string()).collect();
        let mut rows = vec![vec![0.01; 70]; 70];
        (rows[0][69], rows[35][36], rows[69][0]) = (0.9, 0.8, 0.7);
        let group = MapGroup::new("layer", tokens.clone(), tokens);
        let found = HeadMap { head: 0, rows: rows.clone() }.thumbnail(&group, 32);
        assert_eq!((found.len(), found[0].len()), (32, 32));
        assert_eq!((found[0][31], found[16][16], found[31][0]), (0.9, 0.8, 0.7));
        assert_eq!(found.iter().flatten().filter(|&&weight| weight > 0.5).count(), 3);
        // A small map is itself.
        let small = MapGroup::new("layer", ["a", "b"], ["x", "y", "z"]);
        let head = HeadMap { head: 0, rows: vec![vec![0.1, 0.2, 0.7], vec![1.0, 0.0, 0.0]] };
        assert_eq!(head.thumbnail(&small, 32), head.rows);
        assert!(HeadMap::default().thumbnail(&MapGroup::default(), 32).is_empty());
    }
}
