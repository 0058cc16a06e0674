package plan

// New checks what was asked for and completes it. Its error joins all that is wrong.
func New(o Options) (Plan, error) {
	p := Plan{o}
	p.fill()
	if err := p.check(); err != nil {
		return Plan{}, err
	}
	p.fit()
	return p, nil
}
