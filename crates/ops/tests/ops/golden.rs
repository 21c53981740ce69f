//! Reader of the golden files in `golden/`.

use std::path::Path;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use safetensors::{Dtype, SafeTensors};

/// A golden file.
pub struct Golden {
    bytes: Vec<u8>,
}

impl Golden {
    pub fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(format!("{name}.safetensors"));
        Self { bytes: std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) }
    }

    /// Returns the name and the options of each case, sorted by name.
    pub fn cases(&self) -> Vec<(String, serde_json::Value)> {
        let (_, header) = SafeTensors::read_metadata(&self.bytes).unwrap();
        let mut cases: Vec<_> = header
            .metadata()
            .clone()
            .unwrap_or_default()
            .into_iter()
            .filter(|(name, _)| name != "origin")
            .map(|(name, options)| (name, serde_json::from_str(&options).unwrap()))
            .collect();
        cases.sort_by(|a, b| a.0.cmp(&b.0));
        assert!(!cases.is_empty());
        cases
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        let view = self.file().tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(view.dtype(), Dtype::F32, "{name}");
        view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.file().tensor(name).unwrap().shape().to_vec()
    }

    pub fn has(&self, name: &str) -> bool {
        self.file().tensor(name).is_ok()
    }

    pub fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(self.floats(name), self.shape(name)), device)
    }

    pub fn integers<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D, Int> {
        let file = self.file();
        let view = file.tensor(name).unwrap();
        assert_eq!(view.dtype(), Dtype::I64, "{name}");
        let data: Vec<i64> = view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
        Tensor::from_data(TensorData::new(data, view.shape().to_vec()), device)
    }

    pub fn booleans<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D, Bool> {
        let file = self.file();
        let view = file.tensor(name).unwrap();
        let data: Vec<bool> = view.data().iter().map(|&b| b != 0).collect();
        Tensor::from_data(TensorData::new(data, view.shape().to_vec()), device)
    }

    fn file(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).unwrap()
    }
}
