// Package pace decides by ticks, each of a second: when the peer's adapter is asked whether it is there, when the
// adapter or a CQ counts as stuck, and how much of the blocks each connection may have. It has no lock and no clock.
package pace
