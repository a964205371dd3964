//! GRIB, editions 1 and 2: messages in files and streams, and the keys of their fields.
//!
//! [`Scan`] and [`Messages`] find messages, [`Fields`] splits those with several fields. [`Identify`] derives
//! the key of a field: [`EcCodes`] asks ecCodes, [`Learned`] asks only for kinds of messages it has not seen, and
//! [`Labelled`] adds default labels to keys that lack them.
mod frame;
mod header;
mod identify;
mod learned;
mod messages;
mod octets;
mod split;

pub use identify::{EcCodes, Identify, Labelled, UNKNOWN, UNLABELLED};
pub use learned::Learned;
pub use messages::{Message, Messages, Scan, Skipped};
pub use split::Fields;
