//! Charts, as SVG files: overheads (pcce.txt Fig. 8), cumulative depths (Fig. 9), capture curves.

use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::capture_cost::At;
use super::report::Report;
use super::verify::Histogram;

#[derive(Clone, Debug)]
pub struct Chart {
    /// Its file in the folder of charts.
    pub file: String,
    pub title: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Draws all charts for which there are figures into `folder`.
pub fn draw(report: &Report, folder: &Path) -> Result<Vec<Chart>> {
    fs::create_dir_all(folder)?;
    let mut charts = Vec::new();
    let mut chart = |file: String, title: String, size, draw: &dyn Fn(&Area) -> Result<()>| -> Result<()> {
        let path = folder.join(&file);
        let area = SVGBackend::new(&path, size).into_drawing_area();
        area.fill(&WHITE).map_err(|e| anyhow!("{}: {e}", path.display()))?;
        let titled =
            area.titled(&title, ("sans-serif", 20)).map_err(|e| anyhow!("{}: {e}", path.display()))?;
        draw(&titled)?;
        area.present().map_err(|e| anyhow!("{}: {e}", path.display()))?;
        charts.push(Chart { file, title });
        Ok(())
    };
    let overheads: Vec<(String, Vec<Bar>)> = overheads(report);
    if !overheads.is_empty() {
        let title = "User time, variant to baseline, with 95 % intervals (PCCE Fig. 8)".to_owned();
        chart("overheads.svg".into(), title, (1200, 500), &|area| draw_overheads(area, report, &overheads))?;
    }
    if let Some(variant) = report.variants.first() {
        let depths: Vec<(&str, &Histogram, &Histogram)> = report
            .of(variant)
            .filter_map(|(p, m)| {
                let depths = &m.verified.as_ref()?.depths;
                (depths.plain.total() > 0).then_some((p.name.as_str(), &depths.frames, &depths.plain))
            })
            .collect();
        if !depths.is_empty() {
            let title = "Share of contexts that a stack of this depth holds: pushed frames and plain stack (PCCE Fig. 9)";
            let rows = depths.len().div_ceil(6) as u32;
            chart("depths.svg".into(), title.to_owned(), (1320, 220 * rows + 60), &|area| {
                draw_depths(area, &depths)
            })?;
        }
    }
    for (program, points) in &report.captures.curves {
        let mut lines: Vec<Line> = Vec::new();
        for point in points {
            let (At::Entries(period), Some(ratio)) = (point.at, point.ratio()) else { continue };
            let overhead = (ratio.median - 1.0).max(1e-3) * 100.0;
            add_point(&mut lines, &point.way, (1.0 / period as f64, overhead));
        }
        if lines.iter().any(|l| l.1.len() > 1) {
            let title = format!("{program}: overhead in % by captures for each function entry");
            chart(format!("captures-{program}.svg"), title, (800, 500), &|area| {
                draw_lines(area, &lines, "captures for each entry", "overhead in %")
            })?;
        }
    }
    for stack in ["chain", "recursion"] {
        let mut lines: Vec<Line> = Vec::new();
        for cost in report.captures.by_depth.iter().filter(|c| c.stack == stack) {
            add_point(&mut lines, &cost.way, (cost.depth as f64, cost.captured));
        }
        if !lines.is_empty() {
            let title = format!("Nanoseconds for one capture by the functions on the stack ({stack})");
            chart(format!("capture-cost-{stack}.svg"), title, (800, 500), &|area| {
                draw_lines(area, &lines, "functions on the stack", "nanoseconds")
            })?;
        }
    }
    Ok(charts)
}

/// A name and its points.
type Line = (String, Vec<(f64, f64)>);

fn add_point(lines: &mut Vec<Line>, name: &str, point: (f64, f64)) {
    match lines.iter_mut().find(|l| l.0 == name) {
        Some(line) => line.1.push(point),
        None => lines.push((name.to_owned(), vec![point])),
    }
}

/// A ratio and its interval.
type Bar = (f64, (f64, f64));

fn overheads(report: &Report) -> Vec<(String, Vec<Bar>)> {
    let mut all: Vec<(String, Vec<Bar>)> = Vec::new();
    for (i, variant) in report.variants.iter().enumerate() {
        for (program, measured) in report.of(variant) {
            let Some(ratio) = measured.time_ratio() else { continue };
            let row = match all.iter().position(|r| r.0 == program.name) {
                Some(row) => row,
                None => {
                    all.push((
                        program.name.clone(),
                        vec![(f64::NAN, (f64::NAN, f64::NAN)); report.variants.len()],
                    ));
                    all.len() - 1
                }
            };
            all[row].1[i] = (ratio.median, ratio.interval);
        }
    }
    all
}

fn draw_overheads(area: &Area, report: &Report, programs: &[(String, Vec<Bar>)]) -> Result<()> {
    let values = || programs.iter().flat_map(|p| &p.1).filter(|b| !b.0.is_nan());
    let top = values().map(|b| b.1.1).fold(1.05, f64::max) + 0.01;
    let bottom = values().map(|b| b.1.0).fold(0.98, f64::min) - 0.01;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..programs.len() as f64, bottom..top)
        .map_err(|e| anyhow!("{e}"))?;
    let name = |x: &f64| {
        let i = x.floor();
        if (x - i - 0.5).abs() < 0.01 {
            programs.get(i as usize).map_or(String::new(), |p| p.0.clone())
        } else {
            String::new()
        }
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * programs.len() + 1)
        .x_label_formatter(&name)
        .y_label_formatter(&|y| format!("{y:.2}"))
        .draw()
        .map_err(|e| anyhow!("{e}"))?;
    let width = 0.8 / report.variants.len() as f64;
    for (v, variant) in report.variants.iter().enumerate() {
        let color = COLORS[v % COLORS.len()];
        let mut bars = Vec::new();
        for (i, (_, ratios)) in programs.iter().enumerate() {
            let (ratio, (low, high)) = ratios[v];
            if ratio.is_nan() {
                continue;
            }
            let left = i as f64 + 0.1 + v as f64 * width;
            let middle = left + width / 2.0;
            bars.push(
                Rectangle::new([(left, 1.0), (left + width * 0.9, ratio)], color.mix(0.6).filled())
                    .into_dyn(),
            );
            bars.push(
                PathElement::new(vec![(middle, low), (middle, high)], BLACK.stroke_width(1)).into_dyn(),
            );
        }
        chart
            .draw_series(bars)
            .map_err(|e| anyhow!("{e}"))?
            .label(&variant.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled()));
    }
    legend(&mut chart)
}

fn legend<'a, X: Ranged, Y: Ranged>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
) -> Result<()> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
        .map_err(|e| anyhow!("{e}"))
}

fn draw_depths(area: &Area, programs: &[(&str, &Histogram, &Histogram)]) -> Result<()> {
    for (cell, (name, frames, plain)) in
        area.split_evenly((programs.len().div_ceil(6), 6)).iter().zip(programs)
    {
        // Rare recursion must not squeeze the rest.
        let deepest = plain.quantile(0.999).unwrap_or(1).max(frames.quantile(0.999).unwrap_or(1)).max(4);
        let mut chart = ChartBuilder::on(cell)
            .caption(name, ("sans-serif", 15))
            .margin(6)
            .x_label_area_size(22)
            .y_label_area_size(34)
            .build_cartesian_2d(0.0..deepest as f64, 0.0..100.0)
            .map_err(|e| anyhow!("{e}"))?;
        chart
            .configure_mesh()
            .x_labels(5)
            .y_labels(5)
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y:.0} %"))
            .draw()
            .map_err(|e| anyhow!("{e}"))?;
        for (histogram, color) in [(frames, COLORS[0]), (plain, COLORS[1])] {
            let mut points = Vec::new();
            let mut share = 0.0;
            for (depth, next) in histogram.cumulative().take_while(|(d, _)| *d <= deepest) {
                points.push((depth as f64, share));
                share = 100.0 * next;
                points.push((depth as f64, share));
            }
            points.push((deepest as f64, share));
            chart.draw_series(LineSeries::new(points, color.stroke_width(2))).map_err(|e| anyhow!("{e}"))?;
        }
    }
    Ok(())
}

fn draw_lines(area: &Area, lines: &[Line], x_name: &str, y_name: &str) -> Result<()> {
    let points = || lines.iter().flat_map(|l| &l.1);
    let range = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let (low, high) = points().map(of).fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        low / 1.5..high * 1.5
    };
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(45)
        .y_label_area_size(70)
        .build_cartesian_2d(range(&|p| p.0).log_scale(), range(&|p| p.1).log_scale())
        .map_err(|e| anyhow!("{e}"))?;
    chart
        .configure_mesh()
        .x_desc(x_name)
        .y_desc(y_name)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|x| format!("{x}"))
        .y_label_formatter(&|y| format!("{y}"))
        .draw()
        .map_err(|e| anyhow!("{e}"))?;
    for (i, (name, points)) in lines.iter().enumerate() {
        let color = COLORS[i % COLORS.len()];
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)).point_size(3))
            .map_err(|e| anyhow!("{e}"))?
            .label(name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 14, y)], color.stroke_width(2)));
    }
    legend(&mut chart)
}
