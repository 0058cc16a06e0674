// Package strict collects what a program did that real silicon would punish, or that is a latent bug.
package strict
