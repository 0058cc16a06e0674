package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
)

// mostRows is how many rows the histogram of the table has at most. The JSON object has all steps.
const mostRows = 25

// buckets prints a distribution: how many samples are in each row, and the share of those up to its end.
func (t Table) buckets(list []measure.Bucket) {
	rows := merge(list, mostRows)
	var all, sum, most int64
	for _, b := range rows {
		all, most = all+b.Count, max(most, b.Count)
	}
	for _, b := range rows {
		sum += b.Count
		bar := strings.Repeat("#", int(math.Ceil(40*float64(b.Count)/float64(most))))
		fmt.Fprintf(t.W, "%9s to %9s %10d %8.4f %% %s\n", micros(b.FromNs), micros(b.ToNs), b.Count,
			100*float64(sum)/float64(all), bar)
	}
}

// merge puts steps together into at most n rows, whose width grows by a factor: a tail takes few of them.
func merge(list []measure.Bucket, n int) []measure.Bucket {
	if len(list) <= n {
		return list
	}
	from := max(list[0].FromNs, 1)
	factor := math.Log(max(list[len(list)-1].ToNs, 2*from)/from) / float64(n)
	row := func(b measure.Bucket) int {
		return min(max(int(math.Log(max(b.FromNs, from)/from)/factor), 0), n-1)
	}
	var rows []measure.Bucket
	last := -1
	for _, b := range list {
		if i := row(b); i != last {
			rows, last = append(rows, b), i
			continue
		}
		r := &rows[len(rows)-1]
		r.ToNs, r.Count = b.ToNs, r.Count+b.Count
	}
	return rows
}
