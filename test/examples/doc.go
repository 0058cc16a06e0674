// Package examples tests that the examples can be copied out of this repository, and that the commands in
// their READMEs do what the READMEs say.
package examples
