//! The configuration of a new bucket, in the body of `CreateBucket`. `s3s` skips the elements that it does not know.
use crate::fault::{Fault, Outcome};
use crate::objects::not_offered;
use s3s::S3ErrorCode;
use s3s::xml::{DeError, DeResult, Deserializer};

/// The element that contains the configuration.
const CONFIGURATION: &str = "CreateBucketConfiguration";
/// The element with the region of the bucket.
const LOCATION: &str = "LocationConstraint";

/// Extension of a request: the region in the scope of its signature.
#[derive(Clone)]
pub(crate) struct Region(pub(crate) String);

/// Elements of a configuration.
#[derive(Default)]
struct Elements {
    location: Option<String>,
    /// The first element other than [`LOCATION`].
    other: Option<String>,
}

impl Elements {
    /// Reads the elements up to the first one that is not offered. The XML is valid, since `s3s` has read it before.
    fn read(xml: &[u8]) -> Self {
        let mut elements = Self::default();
        let _ = Deserializer::new(xml).named_element(CONFIGURATION, |xml| {
            xml.for_each_element(|xml, name| elements.read_one(xml, name))
        });
        elements
    }

    /// Reads one element. The error for any other than [`LOCATION`] ends the reading.
    fn read_one(&mut self, xml: &mut Deserializer<'_>, name: &[u8]) -> DeResult {
        if name != LOCATION.as_bytes() {
            self.other = Some(String::from_utf8_lossy(name).into_owned());
            return Err(DeError::InvalidContent);
        }
        self.location = Some(xml.text(|text| Ok(text.to_owned()))?);
        Ok(())
    }
}

/// Checks the configuration in the body of a request, which may be empty. A bucket has no region, so that its location
/// must be the region for which the client signs its requests.
///
/// # Errors
/// `IllegalLocationConstraintException` for another region; `NotImplemented` for other elements, such as tags.
pub(crate) fn check_configuration(xml: &[u8], region: Option<&Region>) -> Outcome<()> {
    let Elements { location, other } = Elements::read(xml);
    if let Some(name) = other {
        return Err(not_offered(&format!("elements {name} of {CONFIGURATION}")));
    }
    let location = location.unwrap_or_default();
    let region = region.map_or("", |region| &region.0);
    if location.is_empty() || location == region {
        return Ok(());
    }
    let why = format!(
        "the {LOCATION} {location:?} is not the region {region:?} of the signature: leave it out, or sign for that region"
    );
    Err(Fault::new(S3ErrorCode::IllegalLocationConstraintException, why))
}
