"""Whether a view or a dialog can be read and used in little room: a window of 1280 × 1024 at 200 %, and 360 pixels (WCAG 1.4.4 and 1.4.10)."""

from __future__ import annotations

from web.browser import Browser

_SIZES = {"at 200 %": (640, 512), "360 pixels wide": (360, 640)}

# A table, a drawing and code may scroll inside their own box. Text that is cut can be read elsewhere: a cell's below its table, that of
# the inventory in its title, that of a drawing's box in its title.
_LOOK = """
const found = [];
const page = document.documentElement;
const name = (element) => `${element.tagName} "${element.innerText.slice(0, 40)}"`;
if (page.scrollWidth > page.clientWidth) found.push(`the page scrolls sideways: ${page.scrollWidth} pixels`);
if (document.querySelector('main').clientWidth < 300) found.push('the view is narrow');
if (document.querySelector('main').getBoundingClientRect().top + scrollY > 220) found.push('the inventory fills the window');
for (const fact of document.querySelectorAll('main dl.facts dt'))
  if (fact.getBoundingClientRect().top !== fact.nextElementSibling.getBoundingClientRect().top) found.push(`a name and its value are in two lines: ${name(fact)}`);
for (const each of document.querySelectorAll('#page *')) {
  const style = getComputedStyle(each);
  if (each.closest('td, .tree, .topology-box') || style.display === 'inline' || each.scrollWidth <= each.clientWidth + 1 || each.innerText === undefined) continue;
  const scrolls = ['auto', 'scroll'].includes(style.overflowX);
  if (style.overflowX !== 'visible' && !scrolls && each.clientWidth > 1 && !each.matches('input, select')) found.push(`cut: ${name(each)}`);
  if (scrolls && !each.matches('.grid-scroll, pre')) found.push(`scrolls sideways: ${name(each)}`);
}
const dialog = document.querySelector('dialog');
if (dialog) {
  for (const button of dialog.querySelectorAll('.modal-footer button')) {
    button.scrollIntoView({block: 'nearest'});
    const { left, right, top, bottom } = button.getBoundingClientRect();
    const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    if (left < 0 || right > innerWidth || top < 0 || bottom > innerHeight || !button.contains(hit)) found.push(`out of reach: ${name(button)}`);
  }
  const body = dialog.querySelector('.modal-body');
  if (body.clientHeight < 100 && body.scrollHeight > body.clientHeight) found.push(`only ${body.clientHeight} pixels of ${body.scrollHeight} of the form are shown`);
  for (const field of body.querySelectorAll('input, select, textarea')) {
    if (!field.checkVisibility()) continue;  // it is folded
    field.scrollIntoView({block: 'nearest'});
    const { left, right, top, bottom } = field.getBoundingClientRect();
    if (left < 0 || right > innerWidth || top < 0 || bottom > innerHeight) found.push(`out of reach: ${field.id}`);
  }
}
return found;
"""


def reflow_problems(browser: Browser) -> list[str]:
    """What cannot be read or reached in what is shown, one line each. The window is as before afterwards."""
    found = []
    for size, (width, height) in _SIZES.items():
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        browser.settle()
        found += [f"{size}: {problem}" for problem in browser.run(_LOOK)]
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.settle()
    return found
