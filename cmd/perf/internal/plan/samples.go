package plan

import "cmp"

// checkSamples checks how latency samples are taken, and which are kept.
func (p *Plan) checkSamples() []error {
	gap, half, bw := p.Load.Gap, p.Peer.Timeout/2, p.Bandwidth()
	stamps, samples := p.Report.HWTimestamps, p.Report.Unsorted
	return []error{
		cmp.Or(
			wrong(gap < 0, "gap (--latency-gap) %v is negative", gap),
			wrong(gap > 0 && bw, "gap (--latency-gap): only for latency tests; bandwidth tests have --rate-limit"),
			wrong(gap > 0 && gap > half,
				"gap (--latency-gap) %v > %v, half of --timeout, after which the peer gives up",
				gap, half)),
		cmp.Or(
			wrong(stamps && !bw, "timestamps of the adapter (--hw-timestamps): only for bandwidth tests; its clock "+
				"does not show when a message was posted"),
			wrong(stamps && !p.Sends() && !p.Receives(), "timestamps of the adapter (--hw-timestamps): this end of %v "+
				"bw has no completions; give it to the other", p.Verb)),
		cmp.Or(
			wrong(samples && bw, "samples (-U): only for latency tests"),
			unfit(samples && !p.ByCount(), "report-unsorted",
				"samples (-U): a run by time (-D) keeps only the distribution (-H); give iterations (-n)"),
			wrong(samples && p.ThreadCount() > 1,
				"samples (-U): those of %d threads (--threads) have no order; use one", p.ThreadCount())),
	}
}
