// Package schedule chooses the pairs that are tested next, by who is busy and who is lost.
package schedule
