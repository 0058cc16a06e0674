// Package trace prints what programs do to an emulated adapter: one line for each command, doorbell, work request,
// completion and event, in the field's terms, as text or as JSON.
package trace
