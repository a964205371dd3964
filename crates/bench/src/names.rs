//! Names of choices.

/// A choice on the command line. Reports name it as the command line does.
pub(crate) trait Named: clap::ValueEnum {
    /// The name by which the command line selects this value.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl<T: clap::ValueEnum> Named for T {}
