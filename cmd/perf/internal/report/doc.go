// Package report prints the outcome of a test: as a table, line by line while
// it runs, or as one JSON object at the end; and shows saved objects, compared or as an HTML page.
//
// A new figure is a column in table.go and a key in json.go; package measure computes it. A new option is a word in
// Table.Header and a key of "test".
package report
