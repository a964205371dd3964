//! Parser of schemas.
use super::rule::{Part, Presence, Rule, Values};
use super::tokens::Tokens;
use crate::key::is_name;
use crate::kinds::KeyType;
use crate::limits::{NAME_BYTES_MAX, SCHEMA_NAMES_MAX, SCHEMA_RULES_MAX, VALUE_BYTES_MAX};
use esker_types::Result;
use std::collections::BTreeMap;

/// Types declared at one position.
type Types = BTreeMap<String, KeyType>;

/// The declarations of a text.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) types: Types,
    pub(super) rules: Vec<Rule>,
    /// Every name, in the order of its first appearance in a rule.
    pub(super) names: Vec<String>,
}

/// Reads a text that errors call `source`.
pub(super) fn parse(text: &str, source: &str) -> Result<Parsed> {
    let mut parser = Parser { tokens: Tokens::new(text, source), parsed: Parsed::default() };
    parser.parse_types()?;
    while parser.tokens.peek().is_some() {
        parser.rule()?;
    }
    if parser.parsed.rules.is_empty() {
        return Err(parser.tokens.error("a schema needs a rule, such as [a [b [c]]]".to_owned()));
    }
    Ok(parser.parsed)
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    parsed: Parsed,
}

/// Types and parts of the levels around the current position.
#[derive(Clone, Default)]
struct Around {
    types: Types,
    levels: Vec<Vec<Part>>,
}

impl Parser<'_> {
    /// Parses declarations `name: Type;`, as many as there are before the first rule.
    fn parse_types(&mut self) -> Result<()> {
        while self.tokens.peek().is_some_and(|next| next != '[') {
            let name = self.parse_name()?;
            self.tokens.demand(':', "a declaration (name: Type;)")?;
            let kind = self.kind()?;
            self.tokens.demand(';', "a declaration (name: Type;)")?;
            if self.parsed.types.insert(name.clone(), kind).is_some() {
                return Err(self.tokens.error(format!("the type of {name} is declared twice")));
            }
        }
        Ok(())
    }

    /// `[ database [ index [ datum ] ] ]`, with any number of indexes and of data in each.
    fn rule(&mut self) -> Result<()> {
        let around = Around { types: self.parsed.types.clone(), levels: Vec::new() };
        self.parse_level(&around)
    }

    /// Parses one level of a schema and the levels inside it.
    fn parse_level(&mut self, around: &Around) -> Result<()> {
        self.tokens.demand('[', "a level of a rule")?;
        let line = self.tokens.line();
        let (depth, before) = (around.levels.len(), self.parsed.rules.len());
        let mut here = Around { types: around.types.clone(), levels: around.levels.clone() };
        here.levels.push(Vec::new());
        while !self.tokens.takes(']') {
            match self.tokens.peek() {
                Some('[') if depth < 2 => self.parse_level(&here)?,
                Some('[') => return Err(self.tokens.error("a rule has three levels".to_owned())),
                _ => self.parse_parts(&mut here, before)?,
            }
        }
        if depth == 2 {
            return self.finish(here.levels, line);
        }
        if self.parsed.rules.len() == before {
            return Err(self.tokens.error(format!(
                "the rule ends at level {} of three; write [a [b [c]]]",
                depth + 1
            )));
        }
        Ok(())
    }

    /// Parses parts separated by commas; a trailing comma is allowed. `rules_before` is the number of rules before this
    /// level: parts must come before the levels inside.
    fn parse_parts(&mut self, here: &mut Around, rules_before: usize) -> Result<()> {
        loop {
            let part = self.part(&mut here.types)?;
            if self.parsed.rules.len() > rules_before {
                let message = format!("{} must stand before the levels inside its own", part.name);
                return Err(self.tokens.error(message));
            }
            let Some(level) = here.levels.last_mut() else { return Ok(()) };
            if level.iter().any(|known| known.slot == part.slot) {
                let message = format!("{} occurs twice in one level", part.name);
                return Err(self.tokens.error(message));
            }
            level.push(part);
            if !self.tokens.takes(',') {
                return self.end_of_parts();
            }
            if matches!(self.tokens.peek(), Some('[' | ']')) {
                return Ok(());
            }
        }
    }

    /// Fails unless the list of parts ends here, at a bracket.
    fn end_of_parts(&mut self) -> Result<()> {
        if matches!(self.tokens.peek(), Some('[' | ']')) {
            return Ok(());
        }
        let found = self.tokens.found();
        Err(self.tokens.error(format!("a name is followed by ',', '[' or ']', not by {found}")))
    }

    /// Parses one part of a rule: `name` or `name: Type`, then at most one suffix. `?` makes the name optional,
    /// `?value` gives it a default, and `-` hides it. `=a/b` permits only these values, and `=!a/b` all others. A type
    /// is stored in `types`, and is the type of later parts with the same name.
    fn part(&mut self, types: &mut Types) -> Result<Part> {
        let name = self.parse_name()?;
        if self.tokens.takes(':') {
            let kind = self.kind()?;
            types.insert(name.clone(), kind);
        }
        let kind = types.get(&name).copied().unwrap_or_default();
        let slot = self.slot(&name)?;
        let mut part = Part { name, kind, presence: Presence::Required, values: Values::Any, slot };
        if self.tokens.takes('?') {
            part.presence = self.parse_default(&part)?;
        } else if self.tokens.takes('-') {
            // A value may follow, which is ignored.
            self.tokens.value();
            part.presence = Presence::Hidden;
        } else if self.tokens.takes('=') {
            part.values = self.parse_part_values(&part)?;
        }
        Ok(part)
    }

    /// Parses the default of a name, which may be empty.
    fn parse_default(&mut self, part: &Part) -> Result<Presence> {
        match self.tokens.value() {
            "" => Ok(Presence::Optional),
            value => Ok(Presence::Default(self.canonical(part, value)?)),
        }
    }

    /// Parses the values of a name: listed ones, or excluded ones after `!`.
    fn parse_part_values(&mut self, part: &Part) -> Result<Values> {
        let mut value = self.tokens.value();
        let excluded = value.strip_prefix('!');
        value = excluded.unwrap_or(value);
        let mut listed = Vec::new();
        loop {
            if value.is_empty() {
                return Err(self.tokens.error(format!("a value of {} is missing", part.name)));
            }
            listed.push(self.canonical(part, value)?);
            if !self.tokens.takes('/') {
                break;
            }
            value = self.tokens.value();
        }
        Ok(if excluded.is_some() { Values::NoneOf(listed) } else { Values::OneOf(listed) })
    }

    /// A value in canonical form.
    fn canonical(&self, part: &Part, value: &str) -> Result<String> {
        if value.len() > VALUE_BYTES_MAX || value.contains(|c: char| c == ',' || c.is_control()) {
            return Err(self
                .tokens
                .error(format!("{} has a value that no key can have", part.name)));
        }
        let form = part.kind.canonical(value, None);
        form.map(std::borrow::Cow::into_owned)
            .map_err(|error| self.tokens.error(format!("{}={error}", part.name)))
    }

    /// Parses a name, and returns it in lower case. Fails if it is too long, or has other characters than letters,
    /// digits and underscores.
    fn parse_name(&mut self) -> Result<String> {
        let name = self.tokens.name("a name")?.to_ascii_lowercase();
        if name.len() <= NAME_BYTES_MAX && is_name(&name) {
            return Ok(name);
        }
        let rule = "names are letters, digits and underscores and begin with a letter";
        Err(self.tokens.error(format!("{name:?} is not a valid name: {rule}")))
    }

    /// Parses the name of a type.
    fn kind(&mut self) -> Result<KeyType> {
        let name = self.tokens.name("a type")?;
        KeyType::by_name(name).map_err(|error| self.tokens.error(error.to_string()))
    }

    /// Number of a name, which is added if it is new.
    fn slot(&mut self, name: &str) -> Result<usize> {
        let names = &mut self.parsed.names;
        if let Some(slot) = names.iter().position(|known| known == name) {
            return Ok(slot);
        }
        if names.len() == SCHEMA_NAMES_MAX {
            let message =
                format!("a schema has at most {SCHEMA_NAMES_MAX} names; {name} exceeds that");
            return Err(self.tokens.error(message));
        }
        names.push(name.to_owned());
        Ok(names.len() - 1)
    }

    /// Adds a rule, if it has three levels.
    fn finish(&mut self, levels: Vec<Vec<Part>>, line: usize) -> Result<()> {
        let Ok(levels) = <[Vec<Part>; 3]>::try_from(levels) else { return Ok(()) };
        if self.parsed.rules.len() == SCHEMA_RULES_MAX {
            let message = format!("a schema has at most {SCHEMA_RULES_MAX} rules");
            return Err(self.tokens.error(message));
        }
        self.parsed.rules.push(Rule::new(levels, line));
        Ok(())
    }
}
