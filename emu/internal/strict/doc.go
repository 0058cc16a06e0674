// Package strict collects what a program did that hardware would punish, or that is a latent bug.
package strict
