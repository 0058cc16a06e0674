// Package walls tests the sources of this repository: what they import, how large they are, how they are written.
package walls
