//! `regard completions` and `regard man`: completion scripts for shells, and manual pages.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use regard_system::save_atomically;

use crate::Cli;
use crate::failure::wrong_use;
use crate::print::print;

/// The arguments of `regard completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell to print a script for
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    /// Prints the completion script.
    pub fn run(self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "regard", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}

/// The arguments of `regard man`.
#[derive(Args)]
pub struct Manual {
    /// The command to print the page of, such as `train` or `show attention`; `regard` itself by default
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder instead of printing one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Manual {
    /// Prints one page, or writes all pages into a folder.
    pub fn run(self) -> Result<()> {
        // `build` gives every command its full name and the global flags.
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            let mut pages = Vec::new();
            collect(&root, &mut pages);
            for command in &pages {
                let path = folder.join(format!("{}.1", page_name(command)));
                save_atomically(&path, &page(command)?)?;
            }
            return print(&format!("wrote {} pages to {}\n", pages.len(), folder.display()));
        }
        let mut command = &root;
        for name in &self.command {
            command = below(command, name)?;
        }
        print(&String::from_utf8_lossy(&page(command)?))
    }
}

/// Returns the subcommand `name` of `command`.
fn below<'a>(command: &'a Command, name: &str) -> Result<&'a Command> {
    command.find_subcommand(name).ok_or_else(|| {
        let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let near = regard_nn::config::nearest(name, known.iter().copied());
        let near = near.map_or_else(String::new, |near| format!(", did you mean {near}?"));
        let known = known.join(", ");
        wrong_use(anyhow!("regard man: there is no command {name:?}{near}; expected one of {known}"))
    })
}

/// Collects `command` and all its subcommands, at any depth, in `found`.
fn collect<'a>(command: &'a Command, found: &mut Vec<&'a Command>) {
    found.push(command);
    command.get_subcommands().for_each(|command| collect(command, found));
}

/// Returns the name of a command's page, such as `regard-show-attention`.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_string()
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
