package doctor

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/pureverbs/pureverbs/internal/printable"
)

// Text prints the findings. all prints also those that are ok and those of what is only worth knowing.
func (r *Report) Text(w io.Writer, all bool) error {
	var b bytes.Buffer
	var count [Error + 1]int
	for _, f := range r.Findings {
		if f.Severity > Error {
			f.Severity = Error
		}
		count[f.Severity]++
		if f.Severity < Warning && !all && !(f.Severity == OK && (f.Check == "device" || f.Check == "gid")) {
			continue
		}
		fmt.Fprintf(&b, "%-8s%-10s %-11s%s\n", f.Severity, printable.Message(f.Subject), printable.Message(f.Check),
			printable.Message(f.Text))
		if f.Severity != OK && f.Evidence != "" {
			fmt.Fprintf(&b, "%30s%s\n", "read: ", printable.Message(f.Evidence))
		}
		if f.Severity != OK && f.Remedy != "" {
			fmt.Fprintf(&b, "%30s%s\n", "mend: ", printable.Message(f.Remedy))
		}
	}
	fmt.Fprintf(&b, "%d errors, %d warnings, %d notes, %d ok", count[Error], count[Warning], count[Note], count[OK])
	if !all {
		fmt.Fprint(&b, " (-v shows all)")
	}
	fmt.Fprintln(&b)
	_, err := w.Write(b.Bytes())
	return err
}

// mostReason bounds the line of Reason: Slurm, NHC and others cut longer ones.
const mostReason = 100

// Reason returns the worst finding in one line of at most 100 characters, "" if there is no warning.
func (r *Report) Reason() string {
	if r.Worst < Warning {
		return ""
	}
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Severity == r.Worst })
	f := r.Findings[i]
	line := []rune(printable.Message(fmt.Sprintf("%v: %s %s: %s", f.Severity, f.Subject, f.Check, f.Text)))
	if len(line) > mostReason {
		line = append(line[:mostReason-1], '…')
	}
	return string(line)
}

// JSON prints the report as one object.
func (r *Report) JSON(w io.Writer) error { return printable.WriteJSON(w, r, "  ") }
