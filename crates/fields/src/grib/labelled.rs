//! Labels for messages that have none.
use super::identify::Identify;
use crate::Key;
use esker_types::Result;

/// What messages of other centres lack, and what they are filed under.
const UNLABELLED: [(&str, &str); 4] =
    [("class", "unknown"), ("expver", "0001"), ("stream", "unknown"), ("type", "unknown")];

/// Identity as another one tells it, with labels for what messages of other centres lack: `class=unknown`,
/// `expver=0001`, `stream=unknown` and `type=unknown`, behind the key's own names.
#[derive(Debug)]
pub struct Labelled<I>(pub I);

impl<I: Identify> Identify for Labelled<I> {
    fn identify(&self, message: &[u8]) -> Result<Key> {
        let mut key = self.0.identify(message)?;
        for (name, value) in UNLABELLED {
            if key.get(name).is_none() {
                key.set(name, value)?;
            }
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known(Key);

    impl Identify for Known {
        fn identify(&self, _: &[u8]) -> Result<Key> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn labels_that_are_there_stay() {
        let known = |key: &str| Labelled(Known(Key::parse(key).unwrap())).identify(b"").unwrap();
        let filed = known("param=167,type=fc");
        assert_eq!(filed.as_str(), "param=167,type=fc,class=unknown,expver=0001,stream=unknown");
        let whole = "class=od,expver=0079,stream=oper,type=an,param=167";
        assert_eq!(known(whole).as_str(), whole);
    }
}
