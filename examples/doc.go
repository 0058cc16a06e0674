// Package examples holds programs that show how to use package ibv, each in a
// folder of its own; see README.md. The tests here run them against the stock
// tools.
package examples
