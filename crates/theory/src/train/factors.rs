//! The factorisation `W = Kᵀ Q` of an attention matrix, without its last column.

/// A product `W = Kᵀ Q`. `K` and `Q` have `D + 1` columns and equally many rows; `W` is `[D + 1, D]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factors {
    /// Number of columns of `K` and `Q`, `D + 1`.
    pub(super) side: usize,
}

impl Factors {
    /// Computes `W`.
    pub(super) fn product(self, k: &[f64], q: &[f64], out: &mut [f64]) {
        let side = self.side;
        out.fill(0.0);
        for (k, q) in k.chunks_exact(side).zip(q.chunks_exact(side)) {
            for (row, k) in out.chunks_exact_mut(side - 1).zip(k) {
                row.iter_mut().zip(q).for_each(|(sum, q)| *sum += k * q);
            }
        }
    }

    /// Adds the gradients of `K` and `Q`, given the gradient `slope` of `W`.
    pub(super) fn add_gradient(self, k: &[f64], q: &[f64], slope: &[f64], grad_k: &mut [f64], grad_q: &mut [f64]) {
        let side = self.side;
        let rows = k.chunks_exact(side).zip(q.chunks_exact(side));
        let grads = grad_k.chunks_exact_mut(side).zip(grad_q.chunks_exact_mut(side));
        for ((k, q), (grad_k, grad_q)) in rows.zip(grads) {
            for ((slope, k), grad_k) in slope.chunks_exact(side - 1).zip(k).zip(grad_k) {
                for ((slope, q), grad_q) in slope.iter().zip(q).zip(grad_q.iter_mut()) {
                    *grad_k += q * slope;
                    *grad_q += k * slope;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{Fields, times};
    use crate::prompt::Task;

    #[test]
    fn the_gradient_of_two_factors_is_the_slope_of_the_error() {
        let fields = Fields::draw(&Task::new(3, 6), 20, 0.0, 1, &mut |_| {}).unwrap();
        let factors = Factors { side: 4 };
        // Both factors have two rows.
        let mut parameters: Vec<f64> = (0..16).map(|i| f64::from(i).sin()).collect();
        let product = |parameters: &[f64]| {
            let mut weights = vec![0.0; 12];
            factors.product(&parameters[..8], &parameters[8..], &mut weights);
            weights
        };
        let error = |parameters: &[f64]| fields.train_error(&product(parameters));
        let slope: Vec<f64> =
            times(&fields.moments, &product(&parameters)).iter().zip(&fields.h).map(|(g, h)| 2.0 * (g - h)).collect();
        let mut gradient = [0.0; 16];
        let (grad_k, grad_q) = gradient.split_at_mut(8);
        factors.add_gradient(&parameters[..8], &parameters[8..], &slope, grad_k, grad_q);
        for at in 0..parameters.len() {
            let old = parameters[at];
            parameters[at] = old + 1e-5;
            let up = error(&parameters);
            parameters[at] = old - 1e-5;
            let slope = (up - error(&parameters)) / 2e-5;
            parameters[at] = old;
            assert!((slope - gradient[at]).abs() < 1e-6 * (1.0 + slope.abs()), "{at}: {} and {slope}", gradient[at]);
        }
    }
}
