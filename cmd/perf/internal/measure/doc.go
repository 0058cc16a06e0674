// Package measure holds what is counted, when it is counted, and the figures that come out.
//
// Sampler decides when a run by time counts, Stamps and Latency take the times, Size has the figures of one message
// size. The loops call Record, Post, Done and Tick between messages: those allocate nothing. A new figure is a field of
// Bandwidth or Summary, computed here, and printed by package report.
package measure
