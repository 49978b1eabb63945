//! What a shell and `man` know of a program: completions and manual pages.

use clap::Command;
use clap_complete::Shell;

use crate::failure::{Failure, listing};
use crate::output::print_bytes;

/// The arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script that the shell reads.
    pub fn print(&self, mut program: Command) {
        let name = program.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        print_bytes(&script);
    }
}

/// The arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The page of this command: `cache list`; the default is that of the program
    command: Vec<String>,
}

impl ManArgs {
    /// Prints the page.
    ///
    /// # Errors
    /// The program has no such command.
    pub fn print(&self, mut program: Command) -> Result<(), Failure> {
        program.build();
        let mut command = &program;
        for name in &self.command {
            command = command.find_subcommand(name).ok_or_else(|| {
                let all = command.get_subcommands().map(Command::get_name);
                let failure = Failure::new(format!("there is no command `{name}`"));
                failure.help(format!("there are {}", listing(all)))
            })?;
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone())
            .render(&mut page)
            .map_err(Failure::new)?;
        print_bytes(&page);
        Ok(())
    }
}
