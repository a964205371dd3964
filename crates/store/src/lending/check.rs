//! Comparing what is lent with what the index has of it, while nobody else has the pool open.
use super::lent_segments;
use crate::segment::State;
use crate::target::Target;
use crate::walk::Usage;
use esker_types::Result;

impl Target {
    /// Gives segments back for which the index uses no block, as who died at lending leaves them, and lends it
    /// what it uses without; says what was done.
    pub(crate) fn mend_lending(&self) -> Result<Vec<String>> {
        let mut mended = Vec::new();
        let Some(lending) = self.lending.as_ref().filter(|lending| !lending.read_only) else {
            return Ok(mended);
        };
        while self.account(lending)?.credit >= lending.per_segment && self.take_back(false)? {
            mended.push(format!("target {}: took back what was lent for nothing", self.number()));
        }
        let lend = |idle: u32| self.lend_segment(lending, idle, true);
        while self.account(lending)?.debt > 0 && self.while_moving(|_| lend(0))? {
            mended.push(format!("target {}: lent what the index had taken", self.number()));
        }
        Ok(mended)
    }

    /// What is wrong with what is lent: first what can be counted anew, then the rest.
    pub(crate) fn unfit(&self, usage: &Usage) -> Result<(Vec<String>, Vec<String>)> {
        let (mut miscounted, mut damage) = (Vec::new(), Vec::new());
        let Some(lending) = &self.lending else { return Ok((miscounted, damage)) };
        let place = |segment: u32| format!("target {}, segment {segment}", self.number());
        for number in lent_segments(&*self.index.read()?)? {
            if number >= self.segment_count() {
                damage.push(format!("{}: is lent, and does not exist", place(number)));
                continue;
            }
            let live = usage.segments.get(&number).map_or(0, |used| used.live);
            let state = self.words().segment(number).load();
            if live > 0 {
                damage.push(format!("{}: is lent, and {live} bytes are named", place(number)));
            } else if state != State::Lent {
                miscounted.push(format!("{}: is lent, and {state:?}", place(number)));
            }
        }
        let debt = self.account(lending)?.debt;
        if debt > 0 {
            let number = self.number();
            damage.push(format!(
                "target {number}: the index uses {debt} blocks for which no segment is lent"
            ));
        }
        Ok((miscounted, damage))
    }
}
