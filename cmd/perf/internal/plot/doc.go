// Package plot draws charts as SVG for an HTML page. Colours are classes: the page's style sheet decides what they look
// like, in daylight and in the dark.
package plot
