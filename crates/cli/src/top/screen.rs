//! The whole terminal: it is taken, shows a view each interval, follows keys, and is given back however that ends.
use super::Source;
use super::draw::{Choice, draw};
use anyhow::{Context, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How soon a signal is noticed.
const CHECK: Duration = Duration::from_millis(100);
/// Rows of a page.
const PAGE: usize = 10;

/// Until the user ends it.
pub fn show(source: &mut Source<'_>, interval: Duration, stop: &AtomicBool) -> Result<()> {
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let shown = follow(&mut terminal, source, interval, stop);
    ratatui::try_restore().context("cannot restore the terminal; `reset` does")?;
    shown
}

fn follow(
    terminal: &mut ratatui::DefaultTerminal,
    source: &mut Source<'_>,
    interval: Duration,
    stop: &AtomicBool,
) -> Result<()> {
    let mut choice = Choice::default();
    let mut view = None;
    let mut due = Instant::now() + interval.min(Duration::from_millis(200));
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() >= due {
            due = Instant::now() + interval;
            if !choice.is_paused {
                view = Some(source.view()?);
            }
        }
        terminal.draw(|frame| match &view {
            // Keys count from what is seen, however often Down was pressed at the end of the list.
            Some(view) => choice.first_row = draw(frame, view, &choice),
            None => frame.render_widget("flsched top: looking at the machine …", frame.area()),
        })?;
        let mut until = due;
        loop {
            let left = until.saturating_duration_since(Instant::now()).min(CHECK);
            if event::poll(left)? {
                match event::read()? {
                    Event::Key(key)
                        if key.kind != KeyEventKind::Release && !is_followed(key, &mut choice) =>
                    {
                        return Ok(());
                    }
                    _ => until = Instant::now(),
                }
            }
            if Instant::now() >= until || stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(())
}

/// Does what a key asks for; false: it ends.
fn is_followed(key: KeyEvent, choice: &mut Choice) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if is_control => return false,
        KeyCode::Char('q') => return false,
        KeyCode::Esc if !choice.shows_help => return false,
        KeyCode::Esc => choice.shows_help = false,
        KeyCode::Char('s') => choice.order = choice.order.next(),
        KeyCode::Char('t') => {
            choice.is_per_task = !choice.is_per_task;
            choice.first_row = 0;
        }
        KeyCode::Char('c') => {
            choice.is_regrouped = !choice.is_regrouped;
            choice.first_row = 0;
        }
        KeyCode::Char('p' | ' ') => choice.is_paused = !choice.is_paused,
        KeyCode::Char('?' | 'h') => choice.shows_help = !choice.shows_help,
        KeyCode::Down => choice.first_row += 1,
        KeyCode::Up => choice.first_row = choice.first_row.saturating_sub(1),
        KeyCode::PageDown => choice.first_row += PAGE,
        KeyCode::PageUp => choice.first_row = choice.first_row.saturating_sub(PAGE),
        KeyCode::Home => choice.first_row = 0,
        _ => {}
    }
    true
}
