package config

import (
	"net/url"

	"github.com/orch-dev/orch/fault"
)

// Firebase configures the Firebase databases. The zero value configures none.
type Firebase struct {
	// RealtimeURL is the URL of a Realtime Database, RealtimeToken its credential.
	RealtimeURL   string
	RealtimeToken Secret
	// FirestoreProject and FirestoreDatabase are ids; FirestoreCredentials is the key of a service account.
	FirestoreProject, FirestoreDatabase string
	FirestoreCredentials                Secret
	// FirestoreEmulator is host:port of an emulator instead of Google's servers.
	FirestoreEmulator string
}

// Realtime reports whether a Realtime Database is configured.
func (f Firebase) Realtime() bool { return f.RealtimeURL != "" }

// Firestore reports whether a Firestore is configured.
func (f Firebase) Firestore() bool { return f.FirestoreCredentials != "" || f.FirestoreEmulator != "" }

// check checks that the settings are consistent.
func (f Firebase) check() error {
	wrong := func(field, message string) *fault.Error {
		return fault.New(fault.ValidationError, "%s", message).WithField(field)
	}
	switch {
	case f.RealtimeToken != "" && !f.Realtime():
		return wrong("firebase_realtime_url", "firebase_realtime_token needs the URL of the database").WithHint("such as https://NAME.firebaseio.com")
	case f.FirestoreEmulator != "" && f.FirestoreCredentials != "":
		return wrong("firestore_emulator", "an emulator takes no credentials").WithHint("leave out firestore_credentials, or the emulator")
	case f.FirestoreEmulator != "" && f.FirestoreProject == "":
		return wrong("firestore_project", "firestore_emulator needs the id of a project").WithHint("an emulator takes any, such as demo")
	case (f.FirestoreProject != "" || f.FirestoreDatabase != "") && !f.Firestore():
		return wrong("firestore_credentials", "Firestore needs the key of a service account, or firestore_emulator").WithHint("such as file:~/.orch/firestore.json")
	}
	return nil
}

func firebaseKeys() []Key {
	return []Key{
		{
			Name: "firebase_realtime_url", Node: true, Worker: true, Personal: true, check: databaseURL,
			Usage: "URL of a Realtime Database for the tools firebase.*, such as https://NAME.firebaseio.com, instead of the one of the node",
			field: func(c *Config) any { return &c.Tools.Firebase.RealtimeURL },
		},
		{
			Name: "firebase_realtime_token", Node: true, Worker: true, Personal: true,
			Usage: "where its credential lies, env:NAME or file:PATH: the key of a service account, an ID token or a secret of the database",
			field: func(c *Config) any { return &c.Tools.Firebase.RealtimeToken },
		},
		{
			Name: "firestore_project", Node: true, Worker: true, Personal: true,
			Usage: "project of a Firestore for the tools firebase.* instead of the one of the node; empty is that of firestore_credentials",
			field: func(c *Config) any { return &c.Tools.Firebase.FirestoreProject },
		},
		{
			Name: "firestore_database", Node: true, Worker: true, Personal: true, Usage: "id of the database in the project; empty is the default one",
			field: func(c *Config) any { return &c.Tools.Firebase.FirestoreDatabase },
		},
		{
			Name: "firestore_credentials", Node: true, Worker: true, Personal: true,
			Usage: "where the key of a service account for Firestore lies: env:NAME or file:PATH",
			field: func(c *Config) any { return &c.Tools.Firebase.FirestoreCredentials },
		},
		{
			Name: "firestore_emulator", Node: true, Worker: true, Personal: true, check: hostPort, Usage: "host:port of an emulator of Firestore instead of Google's servers",
			field: func(c *Config) any { return &c.Tools.Firebase.FirestoreEmulator },
		},
	}
}

// databaseURL returns what is wrong with the URL of a database, or "", without quoting it. The query may name the
// database, but must not contain a credential.
func databaseURL(text string) string {
	if why := webURL(text); why != "" {
		return why
	}
	u, err := url.Parse(text)
	if err != nil || u.Query().Has("auth") || u.Query().Has("access_token") {
		return "it must hold no credential: firebase_realtime_token says where that lies"
	}
	return ""
}
