//! `regard look`: the attention maps of inputs.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard_inspect::AttentionView;
use regard_nn::{Ablation, Pass, Site, Wanted};
use regard_tasks::input::Given;
use regard_tasks::task::Looked;
use regard_tasks::{Opened, TaskError};

use super::{Without, dev_or, opened};
use crate::failure::Failure;
use crate::print::print;
use crate::value::from_zero;

/// The arguments of `regard look`.
#[derive(Args)]
pub struct Look {
    /// A model folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Inputs; with none, one that the task finds telling
    #[arg(value_name = "INPUT")]
    inputs: Vec<String>,
    /// Where to write: .html, .svg, .png or .json
    #[arg(long, value_name = "FILE", default_value = "look.html")]
    out: PathBuf,
    /// Only layers whose name has this in it, such as encoder.0, cross or "decoder layer 2"
    #[arg(long, value_name = "NAME")]
    layer: Option<String>,
    /// Only this head of each layer, from 0
    #[arg(long, value_name = "N", value_parser = from_zero::<usize>)]
    head: Option<usize>,
    #[command(flatten)]
    without: Without,
}

impl Look {
    /// Writes the maps.
    pub fn run(self) -> Result<()> {
        AttentionView::check_path(&self.out).map_err(|error| Failure(error.into()))?;
        let model = opened(&self.model)?;
        let wanted = self.wanted(model.as_ref())?;
        let ablation = self.without.ablation(model.as_ref(), dev_or(None))?;
        let inputs = self.inputs.iter().map(|input| Given::argument(input, model.input_kind()).map(Some));
        let mut inputs = inputs.collect::<Result<Vec<_>, _>>().map_err(Failure)?;
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
        if let Looked::Attention(view) = &all
            && view.groups.is_empty()
        {
            let what = "show attention: this model has none; train one with model.kind=transformer".to_string();
            let task = regard_tasks::kind(&model.description().task).map_or("the model", |kind| kind.name());
            return Err(Failure(TaskError::Unsupported { task, what }).into());
        }
        all.save(&self.out).map_err(|error| Failure(error.into()))?;
        let what = match &all {
            Looked::Attention(view) => {
                let heads: usize = view.groups.iter().map(|group| group.heads.len()).sum();
                format!(": {heads} maps in {} layers", view.groups.len())
            }
            Looked::Picture(_) => String::new(),
        };
        print(&format!("wrote {}{what}\n", self.out.display()))
    }

    /// What there is to see of an input, before and after something is left out.
    fn looked(
        &self,
        model: &dyn Opened,
        input: Option<&Given>,
        wanted: &Wanted,
        ablation: Option<&Ablation>,
    ) -> Result<Vec<Looked>> {
        let pass = Pass::inference();
        let mut seen = vec![model.look(input, wanted.clone(), &pass).map_err(Failure)?];
        if let Some(ablation) = ablation {
            let mut less = model.look(input, wanted.clone(), &pass.with_ablation(ablation)).map_err(Failure)?;
            if let Looked::Attention(view) = &mut less {
                view.title = format!("without {}: {}", self.without.names(), view.title);
            }
            seen.push(less);
        }
        Ok(seen)
    }

    /// The layers and heads that were asked for; refused if there are none.
    fn wanted(&self, model: &dyn Opened) -> Result<Wanted> {
        let inventory = model.inventory();
        if inventory.layers.is_empty() && (self.layer.is_some() || self.head.is_some()) {
            return Err(none_of("this model has no attention"));
        }
        let is_asked = |site: &Site| {
            self.layer.as_ref().is_none_or(|layer| site.to_string().contains(layer) || site.words().contains(layer))
        };
        let has_head = |n_heads: usize| self.head.is_none_or(|head| head < n_heads);
        let layers: Vec<Site> =
            inventory.layers.iter().filter(|(site, n)| is_asked(site) && has_head(*n)).map(|(site, _)| *site).collect();
        if layers.is_empty() && !inventory.layers.is_empty() {
            return Err(none_of(&format!("there are {}", inventory.listed())));
        }
        Ok(Wanted { layers: Some(layers), heads: self.head.map(|head| vec![head]), ..Wanted::default() })
    }
}

fn none_of(there_are: &str) -> anyhow::Error {
    let problem = format!("nothing of that name; {there_are}");
    Failure(TaskError::Settings { place: "--layer, --head".to_string(), problem }).into()
}
