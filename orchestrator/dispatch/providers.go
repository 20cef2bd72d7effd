package dispatch

// Calls that ask a provider of models wait in lanes of their own, one for each provider, while as many others as the provider answers at
// the same time are leased. So requests to one provider never hold the slots that those to another could use (ADR 0056).

// Full reports whether a provider gets no further call before another one has ended. It returns false for "".
func (d *Dispatcher) Full(provider string) bool {
	if provider == "" {
		return false
	}
	slots := d.cfg.Slots(provider)
	return slots > 0 && d.asked[provider] >= slots
}

// Asked returns how many calls ask a provider now, and how many wait for it.
func (d *Dispatcher) Asked(provider string) (running, waiting int) {
	for _, f := range d.lanes.families {
		if f.lane.Provider == provider {
			waiting += f.queued
		}
	}
	return d.asked[provider], waiting
}

// releaseProvider subtracts a call that asked a provider. If the provider was full, the calls that wait for it are offered again.
func (d *Dispatcher) releaseProvider(provider string) {
	if provider == "" {
		return
	}
	if d.Full(provider) {
		d.lanes.refresh(func(f *family) bool { return f.lane.Provider == provider })
	}
	if d.asked[provider]--; d.asked[provider] == 0 {
		delete(d.asked, provider)
	}
}
