package plan

// checkSamples checks how latency samples are taken, and which are kept.
func (p *Plan) checkSamples(c *complaints) {
	switch {
	case p.Load.Gap == 0:
	case p.Load.Gap < 0:
		c.add("gap (--latency-gap) %v is negative", p.Load.Gap)
	case p.Bandwidth():
		c.add("gap (--latency-gap): only for latency tests; bandwidth tests have --rate-limit")
	case p.Load.Gap > p.Peer.Timeout/2:
		c.add("gap (--latency-gap) %v > %v, half of --timeout, after which the peer gives up", p.Load.Gap,
			p.Peer.Timeout/2)
	}
	switch {
	case !p.Report.HWTimestamps:
	case !p.Bandwidth():
		c.add("timestamps of the adapter (--hw-timestamps): only for bandwidth tests; its clock does not show " +
			"when a message was posted")
	case !p.Sends() && !p.Receives():
		c.add("timestamps of the adapter (--hw-timestamps): this end of %v bw has no completions; give it to the other",
			p.Verb)
	}
	switch {
	case !p.Report.Unsorted:
	case p.Bandwidth():
		c.add("samples (-U): only for latency tests")
	case !p.ByCount():
		c.unfit("report-unsorted",
			"samples (-U): a run by time (-D) keeps only the distribution (-H); give iterations (-n)")
	case p.ThreadCount() > 1:
		c.add("samples (-U): those of %d threads (--threads) have no order; use one", p.ThreadCount())
	}
}
