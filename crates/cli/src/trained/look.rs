//! `regard look`: writes the attention maps of inputs.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard_inspect::AttentionView;
use regard_nn::{Ablation, Inventory, Pass, Site, Wanted};
use regard_tasks::input::Given;
use regard_tasks::task::Looked;
use regard_tasks::{Opened, TaskError};

use super::{Without, dev_or, opened};
use crate::failure::failure;
use crate::print::{print, tell_note};
use crate::value::from_zero;

/// The arguments of `regard look`.
#[derive(Args)]
pub struct Look {
    /// A model folder written by `regard train`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Inputs to look at; by default an example that the task chooses
    #[arg(value_name = "INPUT")]
    inputs: Vec<String>,
    /// The file to write, ending in .html, .svg, .png or .json
    #[arg(long, value_name = "FILE", default_value = "look.html")]
    out: PathBuf,
    /// Only layers whose name contains this, such as encoder, decoder.1, cross or "decoder layer 2"; all by default
    #[arg(long, value_name = "NAME")]
    layer: Option<String>,
    /// Only this head of each layer, counted from 0; all by default
    #[arg(long, value_name = "N", value_parser = from_zero::<usize>)]
    head: Option<usize>,
    #[command(flatten)]
    without: Without,
    /// Compute the means for --without NAME=mean from this file; from the model's dev split by default
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
}

impl Look {
    /// Writes the maps.
    pub fn run(self) -> Result<()> {
        AttentionView::check_path(&self.out).map_err(failure)?;
        let model = opened(&self.model)?;
        let wanted = self.wanted(model.as_ref())?;
        let ablation = self.without.ablation(model.as_ref(), dev_or(self.data.as_deref()))?;
        let inputs = self.inputs.iter().map(|input| Given::argument(input, model.input_kind()).map(Some));
        let mut inputs = inputs.collect::<Result<Vec<_>, _>>().map_err(failure)?;
        if inputs.is_empty() {
            inputs.push(None);
        }
        let mut all: Option<Looked> = None;
        for input in &inputs {
            for seen in self.looked(model.as_ref(), input.as_ref(), &wanted, ablation.as_ref())? {
                all = Some(match all {
                    Some(before) => before.join(seen),
                    None => seen,
                });
            }
        }
        let Some(all) = all else { return Ok(()) };
        let saved = all.save(&self.out).map_err(failure)?;
        tell_note(&saved);
        let what = match &all {
            Looked::Attention(view) => {
                let heads: usize = view.groups.iter().map(|group| group.heads.len()).sum();
                format!(": {heads} maps in {} layers", view.groups.len())
            }
            Looked::Picture(_) => String::new(),
        };
        print(&format!("wrote {}{what}\n", self.out.display()))
    }

    /// Looks at an input with the whole model and, with `--without`, once more without the named parts.
    fn looked(
        &self,
        model: &dyn Opened,
        input: Option<&Given>,
        wanted: &Wanted,
        ablation: Option<&Ablation>,
    ) -> Result<Vec<Looked>> {
        let pass = Pass::inference();
        let mut seen = vec![model.look(input, wanted.clone(), &pass).map_err(failure)?];
        if let Some(ablation) = ablation {
            let mut less = model.look(input, wanted.clone(), &pass.with_ablation(ablation)).map_err(failure)?;
            if let Looked::Attention(view) = &mut less {
                view.title = format!("without {}: {}", self.without.names(), view.title);
            }
            seen.push(less);
        }
        Ok(seen)
    }

    /// Returns the layers and heads that `--layer` and `--head` ask for, or an error if the model has none of them.
    fn wanted(&self, model: &dyn Opened) -> Result<Wanted> {
        let inventory = model.inventory();
        if inventory.layers.is_empty() && (self.layer.is_some() || self.head.is_some()) {
            return Err(no_such_layer("this model has no attention"));
        }
        let is_asked = |site: &Site| self.layer.as_ref().is_none_or(|layer| is_called(site, layer));
        let has_head = |n_heads: usize| self.head.is_none_or(|head| head < n_heads);
        let layers: Vec<Site> =
            inventory.layers.iter().filter(|(site, n)| is_asked(site) && has_head(*n)).map(|(site, _)| *site).collect();
        if layers.is_empty() && !inventory.layers.is_empty() {
            let layers = Inventory { positions: false, ..inventory.clone() };
            return Err(no_such_layer(&format!("there are {}", layers.list())));
        }
        Ok(Wanted { layers: Some(layers), heads: self.head.map(|head| vec![head]), ..Wanted::default() })
    }
}

/// Returns whether `asked` names a layer: by consecutive parts of its name (`encoder`, `decoder.1`, `cross`) or by its words
/// (`decoder layer 2`).
fn is_called(site: &Site, asked: &str) -> bool {
    let (name, words) = (site.to_string(), site.words());
    let (parts, wanted): (Vec<&str>, Vec<&str>) = (name.split('.').collect(), asked.split('.').collect());
    parts.windows(wanted.len()).any(|some| some == wanted)
        || words == asked
        || words.split(", ").any(|part| part == asked)
}

fn no_such_layer(there_are: &str) -> anyhow::Error {
    let problem = format!("no layer or head matches; {there_are}");
    failure(TaskError::Settings { place: "--layer, --head".to_string(), problem })
}

#[cfg(test)]
mod tests {
    use regard_nn::{AttentionKind, Side};

    use super::*;

    #[test]
    fn layers_are_asked_for_by_parts_of_their_names() {
        let site = |side, layer, kind| Site { side, layer, kind };
        let own = site(None, 1, AttentionKind::SelfAttention);
        assert!(is_called(&own, "1") && is_called(&own, "layer 2"));
        assert!(!is_called(&own, "0") && !is_called(&own, "layer 1") && !is_called(&own, ""));
        assert!(!is_called(&site(None, 10, AttentionKind::SelfAttention), "1"));
        let cross = site(Some(Side::Decoder), 1, AttentionKind::Cross);
        for asked in ["decoder", "decoder.1", "1.cross", "cross", "1", "decoder layer 2", "cross-attention"] {
            assert!(is_called(&cross, asked), "{asked}");
        }
        assert!(!is_called(&cross, "encoder") && !is_called(&cross, "decoder.cross"));
    }
}
