//! Colours, lines and markers of series.
use plotters::style::RGBColor;
use std::collections::BTreeMap;

/// Colours of systems, each with a lighter and a darker shade, from those of Okabe and Ito, which are distinguishable with
/// any colour vision. Labels that begin with a name have the colours of its system. The page's style sheet maps them to
/// lighter ones for dark screens.
const SYSTEMS: [(&str, [RGBColor; 3]); 5] = [
    (
        "esker native nodes DFS tensor run mount rados daos",
        [rgb(0x00_72b2), rgb(0x56_b4e9), rgb(0x00_3d66)],
    ),
    ("posix", [rgb(0xd5_5e00), rgb(0xf2_a05f), rgb(0x80_3800)]),
    ("tmpfs new files file", [rgb(0x00_9e73), rgb(0x66_ccb0), rgb(0x00_553e)]),
    ("ext4 xfs btrfs zfs overlay ext4-2 xfs-2", [rgb(0xcc_79a7), rgb(0xe8_bbd3), rgb(0x80_3c60)]),
    ("HDF5", [rgb(0xe6_9f00), rgb(0xf5_cf7a), rgb(0x8a_6000)]),
];
/// Colours of everything else.
pub(crate) const COLOURS: [RGBColor; 4] =
    [rgb(0x1a_1a1b), rgb(0x8a_5fbf), rgb(0x7d_7a1f), rgb(0x4d_8a99)];
pub(crate) const GREY: RGBColor = rgb(0x6b_6b6b);
pub(crate) const INK: RGBColor = rgb(0x1a_1a1a);
pub(crate) const GRID: RGBColor = rgb(0xdd_dddd);

/// Corners of the markers: disc, square, triangle, diamond, triangle on its head.
const MARKERS: [&[(i32, i32)]; 5] = [
    &[(-4, -2), (-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2)],
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    &[(0, -5), (5, 4), (-5, 4)],
    &[(0, -6), (5, 0), (0, 6), (-5, 0)],
    &[(0, 5), (5, -4), (-5, -4)],
];
/// Length of a dash and of the gap after it; none for a solid line.
const DASHES: [(u32, u32); MARKERS.len()] = [(0, 0), (8, 4), (2, 3), (14, 4), (5, 2)];
/// How densely bars are filled.
const DENSITIES: [f64; 3] = [1.0, 0.25, 0.6];

const fn rgb(hex: u32) -> RGBColor {
    let [_, red, green, blue] = hex.to_be_bytes();
    RGBColor(red, green, blue)
}

/// Style of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Style {
    pub(crate) colour: RGBColor,
    /// Number among the series of a system; none for the limit of the medium.
    index: Option<usize>,
}

/// The style of the limit of the medium: a dashed grey line without markers.
pub(crate) const LIMIT: Style = Style { colour: GREY, index: None };

impl Style {
    /// Position of the dash pattern and of the marker of a series; `None` for the limit of the medium. It shifts by one
    /// each time all positions were used, so that series with the same colour differ.
    fn turned(self) -> Option<usize> {
        self.index.map(|index| (index + index / DASHES.len()) % DASHES.len())
    }

    pub(crate) fn dashes(self) -> (u32, u32) {
        self.turned().map_or((4, 4), |index| DASHES[index])
    }

    pub(crate) fn marker(self) -> &'static [(i32, i32)] {
        self.turned().map_or(&[], |index| MARKERS[index])
    }

    /// Opacity of the filling of bars, from 0 to 1. It changes after every three labels, the number of shades of a
    /// system.
    pub(crate) fn density(self) -> f64 {
        DENSITIES[self.index.unwrap_or_default() / 3 % DENSITIES.len()]
    }
}

/// Gives each label of a chart a style of its own: the labels of each system, and of everything else. All labels of a
/// system have its colours, in all charts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Palette(BTreeMap<Option<usize>, Vec<String>>);

impl Palette {
    /// The style of a label of a system.
    pub(crate) fn style(&mut self, system: &str, label: &str) -> Style {
        let name = system.trim_start_matches("times ").split([' ', ',']).next().unwrap_or_default();
        let system = SYSTEMS.iter().position(|(names, _)| names.split(' ').any(|one| one == name));
        let labels = self.0.entry(system).or_default();
        let index = labels.iter().position(|known| known == label).unwrap_or(labels.len());
        if index == labels.len() {
            labels.push(label.to_owned());
        }
        let colours = system.map_or(COLOURS.as_slice(), |system| &SYSTEMS[system].1);
        Style { colour: colours[index % colours.len()], index: Some(index) }
    }
}
