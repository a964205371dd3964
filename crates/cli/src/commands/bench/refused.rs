//! Options that the original programs have and these do not: they are known, and refused by name.
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use std::marker::PhantomData;

/// What is refused.
pub(super) trait Original {
    /// The original program.
    const NAME: &'static str;
    /// Options as they are written, and what to do in their place.
    const REFUSED: &'static [(&'static str, &'static str)];
}

/// Takes the options of a list and refuses whatever is given of them.
pub(super) struct Refused<O>(PhantomData<O>);

impl<O: Original> Args for Refused<O> {
    fn augment_args(command: Command) -> Command {
        O::REFUSED.iter().fold(command, |command, (option, _)| {
            let argument = Arg::new(*option).hide(true).num_args(0..=1);
            command.arg(match option.strip_prefix("--") {
                Some(long) => argument.long(long),
                None => argument.short(option.chars().nth(1)),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<O: Original> FromArgMatches for Refused<O> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = O::REFUSED.iter().find(|(option, _)| matches.contains_id(option));
        match given {
            None => Ok(Self(PhantomData)),
            Some((option, instead)) => Err(Error::raw(
                ErrorKind::UnknownArgument,
                format!("{} has {option}, and this has not: {instead}\n", O::NAME),
            )),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        Self::from_arg_matches(matches).map(|_| ())
    }
}
