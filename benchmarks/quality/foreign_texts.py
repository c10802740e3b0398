"""Statements in German, Spanish and French, each with a question that it answers and a message that it does not.

Three lines are one of them.
"""

from __future__ import annotations

from standalone import Statement

_TEXTS = {
    "de-home": """
Der Klempner kommt am Donnerstag um acht wegen der Spülmaschine.
Wann wird der Abfluss repariert?
Schreib mir ein Gedicht über den Herbst.
Emma darf wegen ihrer Allergie keine Erdbeeren essen.
Was verträgt unsere Tochter nicht?
Wie hoch ist der Eiffelturm?
Der Ersatzschlüssel liegt bei Frau Lehmann im dritten Stock.
Wer hat noch einen Schlüssel zur Wohnung?
Erkläre mir den Unterschied zwischen Miete und Pacht.
Die Miete steigt ab Januar auf 1.140 Euro.
Wie viel zahlen wir nächstes Jahr fürs Wohnen?
Was reimt sich auf Haus?
Unser Auto muss bis Ende März zum TÜV.
Bis wann braucht der Wagen eine neue Plakette?
Bitte kürze diesen Absatz auf drei Sätze.
Oma wünscht sich zum Geburtstag einen Gutschein für die Therme.
Was schenken wir meiner Mutter?
Nenne mir fünf Hauptstädte in Südamerika.
Den Garten gießen wir abends mit Regenwasser aus der Tonne.
Womit bekommen die Beete ihr Wasser?
Danke, das war sehr hilfreich!
Im Urlaub sind wir zwei Wochen auf Usedom.
Wo verbringen wir die Ferien?
Wie kocht man Eier, damit sie weich bleiben?
Paul spielt jetzt Trompete statt Klavier.
Welches Instrument lernt unser Sohn?
Übersetze „Guten Morgen“ ins Polnische.
""",
    "de-work": """
Rechnungen über 5.000 Euro gibt nur Herr Albers frei.
Wer muss große Ausgaben genehmigen?
Formuliere eine höfliche Absage für eine Einladung.
Das Lager in Kassel schließt zum Jahresende.
Welcher Standort wird aufgegeben?
Was ist der Unterschied zwischen Umsatz und Gewinn?
Der Kunde Nordholz bekommt zwei Prozent Skonto.
Welchen Nachlass geben wir Nordholz?
Wie viele Einwohner hat Norwegen?
Montags ist die Telefonzentrale erst ab zehn besetzt.
Ab wann geht nach dem Wochenende jemand ans Telefon?
Mach mir eine Liste mit Ideen für die Weihnachtsfeier.
Die Sicherung der Datenbank läuft jede Nacht um drei.
Wann werden die Daten gesichert?
Erzähl mir einen Witz.
Bei Ausfall der Heizung rufen wir die Firma Brandt an.
Wen verständigen wir, wenn es im Büro kalt bleibt?
Wie schreibt man „Rhythmus“?
Neue Kollegen bekommen ihren Ausweis am Empfang.
Wo holt man sich die Zugangskarte?
Rechne bitte 17 Prozent von 2.300 aus.
Wir liefern ab April nur noch mit Elektrofahrzeugen aus.
Womit fahren wir künftig zu den Kunden?
Was bedeutet „pro forma“?
Frau Yilmaz leitet seit Mai den Einkauf.
Wer ist für die Beschaffung verantwortlich?
Guten Morgen, wie geht es dir heute?
""",
    "es-home": """
El fontanero viene el jueves a las ocho por el lavavajillas.
¿Cuándo arreglan la fuga de la cocina?
Escríbeme un poema sobre el otoño.
Lucía no puede comer fresas por su alergia.
¿Qué le sienta mal a nuestra hija?
¿Qué altura tiene la torre Eiffel?
La llave de repuesto la tiene la vecina del tercero.
¿Quién más puede abrir el piso?
Explícame la diferencia entre alquilar y arrendar.
El alquiler sube a 940 euros desde enero.
¿Cuánto pagaremos por la vivienda el año que viene?
¿Qué rima con casa?
El coche tiene que pasar la inspección antes de abril.
¿Hasta cuándo es válida la ITV?
Por favor, resume este párrafo en tres frases.
La abuela quiere un vale para el balneario por su cumpleaños.
¿Qué le regalamos a mi madre?
Dime cinco capitales de Sudamérica.
Regamos el huerto por la tarde con agua de lluvia.
¿De dónde sale el agua de las plantas?
¡Gracias, me has ayudado mucho!
En verano pasamos dos semanas en Menorca.
¿Dónde estamos de vacaciones?
¿Cómo se cuecen los huevos para que queden blandos?
Pablo ahora toca la trompeta en lugar del piano.
¿Qué instrumento aprende nuestro hijo?
Traduce «buenos días» al polaco.
""",
    "es-work": """
Las facturas de más de 5.000 euros solo las aprueba el señor Ortega.
¿Quién autoriza los gastos grandes?
Redacta una negativa cortés a una invitación.
El almacén de Zaragoza cierra a final de año.
¿Qué sede abandonamos?
¿Qué diferencia hay entre ingresos y beneficio?
El cliente Montalvo tiene un descuento del dos por ciento.
¿Qué rebaja le hacemos a Montalvo?
¿Cuántos habitantes tiene Noruega?
Los lunes la centralita no atiende hasta las diez.
¿Desde qué hora contestan al teléfono tras el fin de semana?
Hazme una lista de ideas para la fiesta de Navidad.
La copia de seguridad se hace cada noche a las tres.
¿Cuándo se guardan los datos?
Cuéntame un chiste.
Si falla la calefacción llamamos a la empresa Brisa.
¿A quién avisamos si hace frío en la oficina?
¿Cómo se escribe «exuberante»?
Los nuevos recogen su tarjeta en recepción.
¿Dónde se consigue el pase de entrada?
Calcula el 17 por ciento de 2.300.
Desde abril repartimos solo con furgonetas eléctricas.
¿Con qué vehículos vamos a los clientes?
¿Qué significa «pro forma»?
Carmen Ríos dirige las compras desde mayo.
¿Quién se encarga de los proveedores?
Buenos días, ¿qué tal estás hoy?
""",
    "fr-home": """
Le plombier passe jeudi à huit heures pour le lave-vaisselle.
Quand répare-t-on la fuite de la cuisine ?
Écris-moi un poème sur l'automne.
Léa ne peut pas manger de fraises à cause de son allergie.
Qu'est-ce que notre fille ne supporte pas ?
Quelle est la hauteur de la tour Eiffel ?
Le double des clés est chez la voisine du troisième.
Qui d'autre peut ouvrir l'appartement ?
Explique-moi la différence entre louer et emprunter.
Le loyer passe à 940 euros en janvier.
Combien paierons-nous pour le logement l'an prochain ?
Qu'est-ce qui rime avec maison ?
La voiture doit passer le contrôle technique avant avril.
Jusqu'à quand la vignette est-elle valable ?
Résume ce paragraphe en trois phrases, s'il te plaît.
Mamie voudrait un bon pour les thermes à son anniversaire.
Qu'offrons-nous à ma mère ?
Cite-moi cinq capitales d'Amérique du Sud.
On arrose le potager le soir avec l'eau de pluie.
D'où vient l'eau des plantes ?
Merci, ça m'a beaucoup aidé !
Cet été nous passons deux semaines à Belle-Île.
Où allons-nous en vacances ?
Comment cuire des œufs pour qu'ils restent mollets ?
Hugo joue maintenant de la trompette au lieu du piano.
Quel instrument apprend notre fils ?
Traduis « bonjour » en polonais.
""",
    "fr-work": """
Les factures de plus de 5 000 euros sont validées par monsieur Garnier.
Qui autorise les grosses dépenses ?
Rédige un refus poli à une invitation.
L'entrepôt de Dijon ferme à la fin de l'année.
Quel site abandonnons-nous ?
Quelle différence y a-t-il entre chiffre d'affaires et bénéfice ?
Le client Montclar a deux pour cent de remise.
Quel rabais faisons-nous à Montclar ?
Combien d'habitants compte la Norvège ?
Le lundi, le standard n'ouvre qu'à dix heures.
À partir de quand répond-on au téléphone après le week-end ?
Fais-moi une liste d'idées pour la fête de Noël.
La sauvegarde de la base tourne chaque nuit à trois heures.
Quand les données sont-elles copiées ?
Raconte-moi une blague.
En cas de panne du chauffage, on appelle la société Brunel.
Qui prévient-on s'il fait froid au bureau ?
Comment écrit-on « accueil » ?
Les nouveaux retirent leur badge à l'accueil.
Où obtient-on la carte d'entrée ?
Calcule 17 pour cent de 2 300.
Depuis avril nous livrons seulement en véhicules électriques.
Avec quoi allons-nous chez les clients ?
Que veut dire « pro forma » ?
Nadia Benali dirige les achats depuis mai.
Qui s'occupe des fournisseurs ?
Bonjour, comment vas-tu aujourd'hui ?
""",
}  # fmt: skip
THEMES: dict[str, list[Statement]] = {
    theme: [Statement(*lines) for lines in zip(*[iter(texts.strip().splitlines())] * 3, strict=True)]
    for theme, texts in _TEXTS.items()
}
