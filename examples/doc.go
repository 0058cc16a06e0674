// Package examples holds programs that show how to use packages ibv and rdmacm,
// each in a folder of its own; see README.md. The tests here run them against the
// stock tools.
package examples
