package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pureverbs/pureverbs/internal/printable"
)

const whyColumn = "why"

// columns are the names of all columns: those of the fields of the JSON output, in its order, and whyColumn.
var columns = func() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[jsonGID]()) {
		names = append(names, f.Tag.Get("json"))
	}
	return append(names, whyColumn)
}()

// usualColumns are those of the table and of CSV, unless others are chosen.
var usualColumns = []string{"device", "port", "index", "gid", "ip", "version", "netdev", "state"}

func unknownColumn(name string) bool { return !slices.Contains(columns, name) }

// cell returns the value of a field of the JSON output; "" if it does not exist or is not known.
func (j *jsonGID) cell(field int) string {
	v := reflect.ValueOf(j).Elem().Field(field)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	return fmt.Sprint(v.Interface())
}

// cells returns the values of the chosen columns, a slice for each row.
func cells(rows []*row, chosen []string) [][]string {
	var why []string
	if slices.Contains(chosen, whyColumn) {
		why = reasons(rows)
	}
	var out [][]string
	for i, r := range rows {
		g := r.json()
		var line []string
		for _, name := range chosen {
			if name == whyColumn {
				line = append(line, why[i])
			} else {
				line = append(line, g.cell(slices.Index(columns, name)))
			}
		}
		out = append(out, line)
	}
	return out
}

// writeTable prints a line for each GID.
func writeTable(w io.Writer, rows []*row, chosen []string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(chosen, "\t")))
	for _, line := range cells(rows, chosen) {
		for i, s := range line {
			switch {
			case s == "" && chosen[i] != whyColumn:
				line[i] = "-"
			case chosen[i] != whyColumn:
				line[i] = printable.Name(s)
			}
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	t.Flush()
}

// writeCSV prints comma-separated values, with the names of the columns in the first line, as RFC 4180 has them but for
// the ends of lines. Control characters for terminals are escaped.
func writeCSV(w io.Writer, rows []*row, chosen []string) {
	c := csv.NewWriter(w)
	c.Write(chosen) // into memory, as all of it: cannot fail
	for _, line := range cells(rows, chosen) {
		for i, s := range line {
			line[i] = printable.Message(s)
		}
		c.Write(line)
	}
	c.Flush()
}
