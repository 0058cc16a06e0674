// Package schedule chooses the pairs that are tested next, by the hosts that are busy or lost.
package schedule
